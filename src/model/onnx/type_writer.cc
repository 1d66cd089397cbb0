#include "model/onnx/type_writer.h"

#include <string>

#include "model/onnx_fields.h"

namespace lamina::onnx {
namespace {

using protozero::pbf_writer;

void WriteShape(const SymbolicShape& shape, pbf_writer& tensor_type) {
  if (shape.dims.empty()) {  // a scalar; pbf_writer drops messages into which nothing was written
    tensor_type.add_message(TypeProto::Tensor::kShape, std::string());
    return;
  }
  pbf_writer message(tensor_type, TypeProto::Tensor::kShape);
  for (const DimExpr& dim : shape.dims) {
    pbf_writer dimension(message, TensorShapeProto::kDim);
    if (const std::optional<int64_t> value = dim.constant()) {
      dimension.add_int64(TensorShapeProto::Dimension::kDimValue, *value);
    } else {
      dimension.add_string(TensorShapeProto::Dimension::kDimParam, dim.ToString());
    }
  }
}

}  // namespace

void WriteType(const TypeAndShape& type, pbf_writer& message) {
  switch (type.type.kind) {
    case ValueKind::kTensor:
    case ValueKind::kSparseTensor: {
      pbf_writer tensor(message,
                        type.type.is_tensor() ? TypeProto::kTensorType : TypeProto::kSparseTensorType);
      tensor.add_enum(TypeProto::Tensor::kElemType, static_cast<int32_t>(type.type.element));
      if (type.shape) WriteShape(*type.shape, tensor);
      break;
    }
    case ValueKind::kSequence:
    case ValueKind::kOptional: {
      const bool is_sequence = type.type.kind == ValueKind::kSequence;
      pbf_writer container(message, is_sequence ? TypeProto::kSequenceType : TypeProto::kOptionalType);
      pbf_writer element(container, TypeProto::Sequence::kElemType);
      TypeAndShape held = type;
      held.type.kind = type.type.inner;
      // A container inside a container holds tensors; tensors and maps hold nothing.
      const bool nested = held.type.kind == ValueKind::kSequence || held.type.kind == ValueKind::kOptional;
      held.type.inner = nested ? ValueKind::kTensor : ValueKind::kUndefined;
      WriteType(held, element);
      break;
    }
    case ValueKind::kMap: {
      pbf_writer map(message, TypeProto::kMapType);
      map.add_enum(TypeProto::Map::kKeyType, static_cast<int32_t>(type.type.map_key));
      pbf_writer values(map, TypeProto::Map::kValueType);
      WriteType({ValueType::Tensor(type.type.element), type.shape}, values);
      break;
    }
    case ValueKind::kUndefined:
      break;
  }
}

void WriteValueInfo(std::string_view name, const ValueInfo& value, pbf_writer& message) {
  message.add_string(ValueInfoProto::kName, name.data(), name.size());
  if (value.type.kind != ValueKind::kUndefined) {
    pbf_writer type(message, ValueInfoProto::kType);
    WriteType({value.type, value.shape}, type);
  }
  WriteMetadata(value.metadata_props, ValueInfoProto::kMetadataProps, message);
}

void WriteMetadata(const MetadataProps& props, uint32_t field, pbf_writer& message) {
  for (const auto& [key, value] : props) {
    pbf_writer entry(message, field);
    entry.add_string(StringStringEntryProto::kKey, key);
    entry.add_string(StringStringEntryProto::kValue, value);
  }
}

}  // namespace lamina::onnx
