#include "model/onnx/type_reader.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "model/onnx_fields.h"

namespace lamina::onnx {
namespace {

DimExpr ReadDimension(ProtoReader message, std::string_view value_name, int axis) {
  std::optional<int64_t> value;
  std::string_view param;
  while (message.Next()) {
    if (message.field() == TensorShapeProto::Dimension::kDimValue) value = message.Int64();
    if (message.field() == TensorShapeProto::Dimension::kDimParam) param = message.Text();
  }
  if (value && *value >= 0) return {*value};  // some writers store -1 for "not known"
  if (!param.empty()) return DimExpr::FromDimParam(param);
  return DataDependentDim(value_name, axis);
}

SymbolicShape ReadShape(ProtoReader message, std::string_view value_name) {
  SymbolicShape shape;
  while (message.Next(TensorShapeProto::kDim)) {
    if (shape.rank() == Shape::kMaxRank) {
      message.FailUnsupported("value '{}' has more than {} dimensions", value_name, Shape::kMaxRank);
      break;
    }
    shape.dims.push_back(ReadDimension(message.Message(), value_name, shape.rank()));
  }
  return shape;
}

TypeAndShape ReadTensorType(ProtoReader message, ValueKind kind, std::string_view value_name) {
  TypeAndShape result;
  result.type.kind = kind;
  while (message.Next()) {
    if (message.field() == TypeProto::Tensor::kElemType) {
      const int32_t number = message.Int32();
      result.type.element = static_cast<DataType>(number);
      if (number != 0 && DataTypeBits(result.type.element) == 0) {
        message.FailUnsupported("value '{}' has the unknown element type {}", value_name, number);
      }
    } else if (message.field() == TypeProto::Tensor::kShape) {
      result.shape = ReadShape(message.Message(), value_name);
    }
  }
  return result;
}

// A sequence or an optional of what its element says.
TypeAndShape ReadContainerType(ProtoReader message, ValueKind kind, std::string_view value_name) {
  TypeAndShape held;
  while (message.Next(TypeProto::Sequence::kElemType)) held = ReadType(message.Message(), value_name);
  // ValueType describes one container inside another, which then holds tensors.
  const bool nested_too_deep =
      held.type.inner != ValueKind::kUndefined && held.type.inner != ValueKind::kTensor;
  if (held.type.kind == ValueKind::kUndefined || nested_too_deep) return {};
  held.type.inner = held.type.kind;
  held.type.kind = kind;
  return held;
}

TypeAndShape ReadMapType(ProtoReader message, std::string_view value_name) {
  TypeAndShape result;
  result.type.kind = ValueKind::kMap;
  while (message.Next()) {
    if (message.field() == TypeProto::Map::kKeyType) {
      result.type.map_key = static_cast<DataType>(message.Int32());
    } else if (message.field() == TypeProto::Map::kValueType) {
      const TypeAndShape held = ReadType(message.Message(), value_name);
      if (!held.type.is_tensor()) return {};
      result.type.element = held.type.element;
    }
  }
  return result;
}

}  // namespace

TypeAndShape ReadType(ProtoReader message, std::string_view value_name) {
  TypeAndShape type;
  while (message.Next()) {
    switch (message.field()) {
      case TypeProto::kTensorType:
        type = ReadTensorType(message.Message(), ValueKind::kTensor, value_name);
        break;
      case TypeProto::kSparseTensorType:
        type = ReadTensorType(message.Message(), ValueKind::kSparseTensor, value_name);
        break;
      case TypeProto::kSequenceType:
        type = ReadContainerType(message.Message(), ValueKind::kSequence, value_name);
        break;
      case TypeProto::kOptionalType:
        type = ReadContainerType(message.Message(), ValueKind::kOptional, value_name);
        break;
      case TypeProto::kMapType:
        type = ReadMapType(message.Message(), value_name);
        break;
      default:
        break;
    }
  }
  return type;
}

ValueInfoFields ReadValueInfo(ProtoReader message) {
  ValueInfoFields fields;
  ProtoReader type;
  while (message.Next()) {
    switch (message.field()) {
      case ValueInfoProto::kName:
        fields.name = message.Text();
        break;
      case ValueInfoProto::kType:
        type = message.Message();
        break;
      case ValueInfoProto::kMetadataProps:
        ReadMetadataEntry(message.Message(), fields.metadata_props);
        break;
      default:
        break;
    }
  }
  fields.type = ReadType(type, fields.name);
  return fields;
}

void ReadMetadataEntry(ProtoReader entry, MetadataProps& props) {
  auto& [key, value] = props.emplace_back();
  while (entry.Next()) {
    if (entry.field() == StringStringEntryProto::kKey) key = entry.Text();
    if (entry.field() == StringStringEntryProto::kValue) value = entry.Text();
  }
}

}  // namespace lamina::onnx
