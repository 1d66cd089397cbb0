#include "model/onnx/value_file.h"

#include <limits>
#include <new>
#include <optional>
#include <protozero/pbf_writer.hpp>
#include <utility>
#include <vector>

#include "base/element_type.h"
#include "base/error.h"
#include "base/file_writer.h"
#include "model/onnx/proto_reader.h"
#include "model/onnx/tensor_reader.h"
#include "model/onnx/tensor_writer.h"
#include "model/onnx_fields.h"

namespace lamina {
namespace onnx {
namespace {

using protozero::pbf_writer;

// --- Reading. On an error the result is undefined and message.ok() is false. ---

// The type of what a sequence or optional of `type` holds.
ValueType HeldType(const ValueType& type) {
  ValueType held = type;
  held.kind = type.inner;
  const bool holds_container = held.kind == ValueKind::kSequence || held.kind == ValueKind::kOptional;
  held.inner = holds_container ? ValueKind::kTensor : ValueKind::kUndefined;
  return held;
}

Tensor ReadOwnedTensor(ProtoReader message) {
  NamePool names;
  const Initializer tensor = ReadTensor(message, names);
  if (!message.ok()) return {};
  const std::optional<Tensor> view = tensor.InMemory();
  if (!view) {
    message.FailUnsupported("a value of a test data set has external data");
    return {};
  }
  // Copied, because bytes in a file need not be aligned for their type and must not be written to.
  Result<Tensor> copy = view->Clone();
  if (!copy.ok()) {
    message.file().Fail(copy.status());
    return {};
  }
  return *std::move(copy);
}

class ValueReader {
 public:
  static Value Read(ProtoReader message, const ValueType& type) {
    switch (type.kind) {
      case ValueKind::kUndefined:
      case ValueKind::kTensor:
        return ReadOwnedTensor(message);
      case ValueKind::kSequence:
        return Value(ReadSequence(message, type));
      case ValueKind::kOptional:
        return Value(ReadOptional(message, type));
      case ValueKind::kMap:
        return Value(ReadMap(message, type));
      case ValueKind::kSparseTensor:
        message.FailUnsupported("sparse tensors cannot be values of a session");
    }
    return {};
  }

 private:
  // Items stand in the field of their kind.
  static Sequence ReadSequence(ProtoReader message, const ValueType& type) {
    Sequence sequence;
    sequence.element = type.element;
    ValueType held = HeldType(type);
    while (message.Next()) {
      switch (message.field()) {
        case SequenceProto::kTensorValues:
          held.kind = ValueKind::kTensor;
          break;
        case SequenceProto::kSequenceValues:
          held.kind = ValueKind::kSequence;
          break;
        case SequenceProto::kMapValues:
          held.kind = ValueKind::kMap;
          break;
        case SequenceProto::kOptionalValues:
          held.kind = ValueKind::kOptional;
          break;
        case SequenceProto::kSparseTensorValues:
          held.kind = ValueKind::kSparseTensor;
          break;
        default:
          continue;
      }
      sequence.items.push_back(Read(message.Message(), held));
    }
    return sequence;
  }

  static Optional ReadOptional(ProtoReader message, const ValueType& type) {
    Optional optional;
    optional.type = HeldType(type);
    while (message.Next()) {
      switch (message.field()) {
        case OptionalProto::kTensorValue:
        case OptionalProto::kSequenceValue:
        case OptionalProto::kMapValue:
        case OptionalProto::kSparseTensorValue:
        case OptionalProto::kOptionalValue:
          optional.value = std::make_unique<Value>(Read(message.Message(), optional.type));
          break;
        default:
          break;
      }
    }
    return optional;
  }

  // Keys, and a sequence with a scalar tensor for each.
  static Map ReadMap(ProtoReader message, const ValueType& type) {
    const ProtoReader start = message;
    std::vector<std::variant<int64_t, std::string>> keys;
    Sequence values;
    Map map;
    map.key = type.map_key;
    map.value = type.element;
    while (message.Next()) {
      switch (message.field()) {
        case MapProto::kKeyType:
          map.key = static_cast<DataType>(message.Int32());
          break;
        case MapProto::kKeys:
          message.EachVarint([&keys](uint64_t key) { keys.emplace_back(static_cast<int64_t>(key)); });
          break;
        case MapProto::kStringKeys:
          keys.emplace_back(std::string(message.Text()));
          break;
        case MapProto::kValues:
          values = ReadSequence(message.Message(), ValueType::SequenceOf(type.element));
          break;
        default:
          break;
      }
    }
    message = start;
    if (message.ok() && keys.size() != values.items.size()) {
      message.Fail("a map has {} keys, but {} values", keys.size(), values.items.size());
    }
    for (size_t i = 0; message.ok() && i < keys.size(); ++i) {
      std::optional<MapValue> value = ScalarOf(values.items[i]);
      if (value) {
        map.entries.emplace(std::move(keys[i]), *std::move(value));
      } else {
        message.FailUnsupported("the values of a map are not scalars");
      }
    }
    return map;
  }

  using MapValue = std::variant<int64_t, double, std::string>;

  static std::optional<MapValue> ScalarOf(const Value& value) {
    if (!value.is_tensor() || value.tensor().num_elements() != 1) return std::nullopt;
    const Tensor& tensor = value.tensor();
    std::optional<MapValue> scalar;
    DispatchType<float, double, int32_t, int64_t, std::string>(tensor.type(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      if constexpr (std::is_floating_point_v<T>) {
        scalar = static_cast<double>(*tensor.data<T>());
      } else if constexpr (std::is_integral_v<T>) {
        scalar = static_cast<int64_t>(*tensor.data<T>());
      } else {
        scalar = *tensor.data<T>();
      }
    });
    return scalar;
  }
};

// --- Writing ---

ContainerElement ElementOf(ValueKind kind) {
  switch (kind) {
    case ValueKind::kTensor:
      return ContainerElement::kTensor;
    case ValueKind::kSparseTensor:
      return ContainerElement::kSparseTensor;
    case ValueKind::kSequence:
      return ContainerElement::kSequence;
    case ValueKind::kMap:
      return ContainerElement::kMap;
    case ValueKind::kOptional:
      return ContainerElement::kOptional;
    case ValueKind::kUndefined:
      break;
  }
  return ContainerElement::kUndefined;
}

void WriteName(uint32_t field, const std::string& name, pbf_writer& message) {
  if (!name.empty()) message.add_string(field, name);
}

void WriteTensorValue(const Tensor& tensor, const std::string& name, pbf_writer& message) {
  WriteTensor({Name(), tensor.type(), tensor.shape(), tensor}, name, message);
}

class ValueWriter {
 public:
  static Status Write(const Value& value, const std::string& name, pbf_writer& message) {
    switch (value.kind()) {
      case ValueKind::kTensor:
        if (!value.tensor().device().is_host()) {
          return UnsupportedError("value '{}' is on {}, not in host memory", name,
                                  value.tensor().device().ToString());
        }
        WriteTensorValue(value.tensor(), name, message);
        return {};
      case ValueKind::kSequence:
        return WriteSequence(value.sequence(), name, message);
      case ValueKind::kOptional:
        return WriteOptional(value.optional(), name, message);
      case ValueKind::kMap:
        return WriteMap(value.map(), name, message);
      default:
        return InvalidArgumentError("value '{}' is undefined", name);
    }
  }

 private:
  static Status WriteSequence(const Sequence& sequence, const std::string& name, pbf_writer& message) {
    WriteName(SequenceProto::kName, name, message);
    const ContainerElement element =
        sequence.items.empty() ? ContainerElement::kTensor : ElementOf(sequence.items.front().kind());
    message.add_enum(SequenceProto::kElemType, static_cast<int32_t>(element));
    for (const Value& item : sequence.items) {
      uint32_t field = SequenceProto::kTensorValues;
      if (item.kind() == ValueKind::kSequence) field = SequenceProto::kSequenceValues;
      if (item.kind() == ValueKind::kMap) field = SequenceProto::kMapValues;
      if (item.kind() == ValueKind::kOptional) field = SequenceProto::kOptionalValues;
      pbf_writer item_message(message, field);
      LAMINA_RETURN_IF_ERROR(Write(item, {}, item_message));
    }
    return {};
  }

  static Status WriteOptional(const Optional& optional, const std::string& name, pbf_writer& message) {
    WriteName(OptionalProto::kName, name, message);
    const ContainerElement element =
        ElementOf(optional.value ? optional.value->kind() : ValueKind::kUndefined);
    message.add_enum(OptionalProto::kElemType, static_cast<int32_t>(element));
    if (!optional.value) return {};
    uint32_t field = OptionalProto::kTensorValue;
    if (optional.value->kind() == ValueKind::kSequence) field = OptionalProto::kSequenceValue;
    if (optional.value->kind() == ValueKind::kMap) field = OptionalProto::kMapValue;
    if (optional.value->kind() == ValueKind::kOptional) field = OptionalProto::kOptionalValue;
    pbf_writer value_message(message, field);
    return Write(*optional.value, {}, value_message);
  }

  static Status WriteMap(const Map& map, const std::string& name, pbf_writer& message) {
    WriteName(MapProto::kName, name, message);
    message.add_enum(MapProto::kKeyType, static_cast<int32_t>(map.key));
    Sequence values;
    values.element = map.value;
    for (const auto& [key, value] : map.entries) {
      if (const auto* number = std::get_if<int64_t>(&key)) {
        message.add_int64(MapProto::kKeys, *number);
      } else {
        message.add_string(MapProto::kStringKeys, std::get<std::string>(key));
      }
      LAMINA_ASSIGN_OR_RETURN(Tensor scalar, ScalarTensor(map.value, value));
      values.items.emplace_back(std::move(scalar));
    }
    pbf_writer values_message(message, MapProto::kValues);
    return WriteSequence(values, {}, values_message);
  }

  static Result<Tensor> ScalarTensor(DataType type, const std::variant<int64_t, double, std::string>& value) {
    LAMINA_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(type, Shape{}));
    const bool known = DispatchType<float, double, int32_t, int64_t, std::string>(type, [&](auto tag) {
      using T = typename decltype(tag)::type;
      if constexpr (std::is_floating_point_v<T>) {
        if (const auto* number = std::get_if<double>(&value))
          *tensor.mutable_data<T>() = static_cast<T>(*number);
      } else if constexpr (std::is_integral_v<T>) {
        if (const auto* number = std::get_if<int64_t>(&value))
          *tensor.mutable_data<T>() = static_cast<T>(*number);
      } else {
        if (const auto* text = std::get_if<std::string>(&value)) *tensor.mutable_data<T>() = *text;
      }
    });
    if (!known) return UnsupportedError("a map of {} cannot be written", DataTypeName(type));
    return tensor;
  }
};

}  // namespace
}  // namespace onnx

Result<Value> ReadValue(std::span<const std::byte> bytes, const std::string& name, const ValueType& type) {
  onnx::ProtoFile file(name, bytes);
  try {
    Value value = onnx::ValueReader::Read(onnx::ProtoReader(&file), type);
    if (!file.ok()) return file.status();
    return value;
  } catch (const std::bad_alloc&) {
    return ResourceExhaustedError("{}: not enough host memory to read the value", name);
  }
}

Result<Value> ReadValueFile(const std::string& path, const ValueType& type, const FileSystem& files) {
  LAMINA_ASSIGN_OR_RETURN(const std::shared_ptr<const File> file, files.Open(path));
  LAMINA_ASSIGN_OR_RETURN(const MappedRegion mapping, file->Map(0, file->size_bytes()));
  return ReadValue(mapping.bytes(), path, type);
}

Result<std::string> EncodeValue(const Value& value, const std::string& name) {
  std::string bytes;
  try {
    protozero::pbf_writer message(bytes);
    LAMINA_RETURN_IF_ERROR(onnx::ValueWriter::Write(value, name, message));
  } catch (const std::bad_alloc&) {
    return ResourceExhaustedError("not enough host memory to encode value '{}'", name);
  }
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return UnsupportedError("value '{}' takes {} bytes, more than the format's 2 GiB", name, bytes.size());
  }
  return bytes;
}

Status WriteValueFile(const std::string& path, const Value& value, const std::string& name) {
  LAMINA_ASSIGN_OR_RETURN(const std::string bytes, EncodeValue(value, name));
  LAMINA_ASSIGN_OR_RETURN(FileWriter file, FileWriter::Create(path));
  LAMINA_RETURN_IF_ERROR(file.Append(bytes));
  return file.Commit();
}

}  // namespace lamina
