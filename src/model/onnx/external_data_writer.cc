#include "model/onnx/external_data_writer.h"

#include <filesystem>

namespace lamina {

Result<ExternalDataWriter> ExternalDataWriter::Create(const std::string& folder,
                                                      const std::string& location) {
  LAMINA_ASSIGN_OR_RETURN(FileWriter file, FileWriter::Create(std::filesystem::path(folder) / location));
  return ExternalDataWriter(std::move(file), location);
}

Status ExternalDataWriter::Begin() {
  LAMINA_RETURN_IF_ERROR(file_.AlignTo(kAlignmentBytes));
  tensor_offset_bytes_ = file_.bytes_written();
  return {};
}

ExternalDataRef ExternalDataWriter::End() const {
  ExternalDataRef ref;
  ref.location = location_;
  ref.offset_bytes = tensor_offset_bytes_;
  ref.length_bytes = file_.bytes_written() - tensor_offset_bytes_;
  return ref;
}

Result<ExternalDataRef> ExternalDataWriter::Write(std::span<const std::byte> bytes) {
  LAMINA_RETURN_IF_ERROR(Begin());
  LAMINA_RETURN_IF_ERROR(Append(bytes));
  return End();
}

}  // namespace lamina
