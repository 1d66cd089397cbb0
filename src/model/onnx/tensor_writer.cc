#include "model/onnx/tensor_writer.h"

#include <string>

#include "model/onnx_fields.h"

namespace lamina::onnx {
namespace {

using protozero::pbf_writer;

void WriteEntry(std::string_view key, std::string_view value, pbf_writer& tensor) {
  pbf_writer entry(tensor, TensorProto::kExternalData);
  entry.add_string(StringStringEntryProto::kKey, key.data(), key.size());
  entry.add_string(StringStringEntryProto::kValue, value.data(), value.size());
}

void WriteExternalData(const ExternalDataRef& ref, pbf_writer& tensor) {
  WriteEntry("location", ref.location, tensor);
  WriteEntry("offset", std::to_string(ref.offset_bytes), tensor);
  WriteEntry("length", std::to_string(ref.length_bytes), tensor);
  if (!ref.checksum.empty()) WriteEntry("checksum", ref.checksum, tensor);
  tensor.add_enum(TensorProto::kDataLocation, static_cast<int32_t>(TensorProto::kDataLocationExternal));
}

void WriteElements(const Tensor& elements, pbf_writer& tensor) {
  if (elements.type() == DataType::kString) {
    for (const std::string& text : elements.elements<std::string>()) {
      tensor.add_string(TensorProto::kStringData, text);
    }
  } else if (elements.size_bytes() > 0) {
    tensor.add_bytes(TensorProto::kRawData, static_cast<const char*>(elements.raw_data()),
                     static_cast<size_t>(elements.size_bytes()));
  }
}

}  // namespace

void WriteTensor(const Initializer& tensor, std::string_view name, pbf_writer& message) {
  message.add_packed_int64(TensorProto::kDims, tensor.shape.begin(), tensor.shape.end());
  message.add_int32(TensorProto::kDataType, static_cast<int32_t>(tensor.type));
  if (!name.empty()) message.add_string(TensorProto::kName, name.data(), name.size());
  if (const auto* ref = std::get_if<ExternalDataRef>(&tensor.source)) {
    WriteExternalData(*ref, message);
  } else if (const std::optional<Tensor> elements = tensor.InMemory()) {
    WriteElements(*elements, message);
  }
}

void WriteSparseTensor(const SparseTensor& sparse, std::string_view name, pbf_writer& message) {
  {
    pbf_writer values(message, SparseTensorProto::kValues);
    WriteTensor(sparse.values, name, values);
  }
  if (sparse.indices.type != DataType::kUndefined) {
    pbf_writer indices(message, SparseTensorProto::kIndices);
    WriteTensor(sparse.indices, {}, indices);
  }
  message.add_packed_int64(SparseTensorProto::kDims, sparse.shape.begin(), sparse.shape.end());
}

}  // namespace lamina::onnx
