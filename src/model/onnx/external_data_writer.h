// Writes a file of external data tensor by tensor, without holding any of it in memory.
//
//   LAMINA_ASSIGN_OR_RETURN(auto data, ExternalDataWriter::Create("out", "model.onnx.data"));
//   data.Begin();
//   while (...) LAMINA_RETURN_IF_ERROR(data.Append(chunk));
//   initializer.source = data.End();
//   LAMINA_RETURN_IF_ERROR(data.Commit());       // before the model that refers to it is written
//
// Every tensor begins at a multiple of kAlignmentBytes, so that files can be mapped and read past the page
// cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/file_writer.h"
#include "lamina/status.h"
#include "model/initializer.h"

namespace lamina {

// Not thread-safe.
class ExternalDataWriter {
 public:
  static constexpr uint64_t kAlignmentBytes = 4096;

  // The file `location` in the folder of the model; it appears under its name at Commit.
  static Result<ExternalDataWriter> Create(const std::string& folder, const std::string& location);

  // Starts a tensor.
  Status Begin();
  // The next bytes of the tensor.
  Status Append(std::span<const std::byte> bytes) { return file_.Append(bytes); }
  // Ends the tensor: where it lies.
  ExternalDataRef End() const;
  // A whole tensor.
  Result<ExternalDataRef> Write(std::span<const std::byte> bytes);

  const std::string& location() const { return location_; }
  uint64_t bytes_written() const { return file_.bytes_written(); }
  Status Commit() { return file_.Commit(); }

 private:
  ExternalDataWriter(FileWriter file, std::string location)
      : file_(std::move(file)), location_(std::move(location)) {}

  FileWriter file_;
  std::string location_;
  uint64_t tensor_offset_bytes_ = 0;
};

}  // namespace lamina
