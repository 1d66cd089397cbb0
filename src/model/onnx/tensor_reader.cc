#include "model/onnx/tensor_reader.h"

#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/onnx/external_data_ref.h"
#include "model/onnx_fields.h"
#include "model/sparse_tensor.h"

namespace lamina::onnx {
namespace {

// A TensorProto without its typed values, of which only the number is known.
struct TensorFields {
  std::string_view name;
  int32_t data_type = 0;
  Shape shape;
  std::span<const std::byte> raw_data;
  bool is_external = false;
  std::vector<std::pair<std::string_view, std::string_view>> external_data;
  uint32_t typed_field = 0;   // which of the typed fields has values; 0: none
  uint64_t typed_values = 0;  // how many
};

void CountTypedValues(ProtoReader& tensor, TensorFields& fields) {
  uint64_t values = 0;
  const auto count = [&values](auto) { ++values; };
  switch (tensor.field()) {
    case TensorProto::kFloatData:
      tensor.EachFixed<float>(count);
      break;
    case TensorProto::kDoubleData:
      tensor.EachFixed<double>(count);
      break;
    case TensorProto::kStringData:
      values = 1;
      break;
    default:
      tensor.EachVarint(count);
  }
  if (values == 0) return;
  if (fields.typed_field != 0 && fields.typed_field != tensor.field()) {
    tensor.Fail("tensor '{}' has values in fields {} and {}", fields.name, fields.typed_field,
                tensor.field());
  }
  fields.typed_field = tensor.field();
  fields.typed_values += values;
}

void ReadDims(ProtoReader& message, Shape& shape) {
  message.EachVarint([&](uint64_t bits) {
    if (shape.rank() == Shape::kMaxRank) {
      message.FailUnsupported("a tensor has more than {} dimensions", Shape::kMaxRank);
    } else {
      shape.Append(static_cast<int64_t>(bits));
    }
  });
}

std::pair<std::string_view, std::string_view> ReadEntry(ProtoReader entry) {
  std::pair<std::string_view, std::string_view> key_and_value;
  while (entry.Next()) {
    if (entry.field() == StringStringEntryProto::kKey) key_and_value.first = entry.Text();
    if (entry.field() == StringStringEntryProto::kValue) key_and_value.second = entry.Text();
  }
  return key_and_value;
}

TensorFields ReadFields(ProtoReader tensor) {
  TensorFields fields;
  while (tensor.Next()) {
    switch (tensor.field()) {
      case TensorProto::kDims:
        ReadDims(tensor, fields.shape);
        break;
      case TensorProto::kDataType:
        fields.data_type = tensor.Int32();
        break;
      case TensorProto::kSegment:
        tensor.FailUnsupported("a tensor is stored in segments");
        break;
      case TensorProto::kName:
        fields.name = tensor.Text();
        break;
      case TensorProto::kRawData:
        fields.raw_data = tensor.Bytes();
        break;
      case TensorProto::kExternalData:
        fields.external_data.push_back(ReadEntry(tensor.Message()));
        break;
      case TensorProto::kDataLocation:
        fields.is_external = tensor.Int64() == TensorProto::kDataLocationExternal;
        break;
      case TensorProto::kFloatData:
      case TensorProto::kInt32Data:
      case TensorProto::kInt64Data:
      case TensorProto::kStringData:
      case TensorProto::kDoubleData:
      case TensorProto::kUint64Data:
        CountTypedValues(tensor, fields);
        break;
      default:
        break;
    }
  }
  return fields;
}

// The typed field that holds values of `type`, and how many of them make up a tensor.
struct TypedLayout {
  uint32_t field;
  uint64_t values;
};
TypedLayout LayoutOf(DataType type, uint64_t elements, uint64_t bytes) {
  switch (type) {
    case DataType::kFloat:
      return {TensorProto::kFloatData, elements};
    case DataType::kComplex64:
      return {TensorProto::kFloatData, 2 * elements};
    case DataType::kDouble:
      return {TensorProto::kDoubleData, elements};
    case DataType::kComplex128:
      return {TensorProto::kDoubleData, 2 * elements};
    case DataType::kInt64:
      return {TensorProto::kInt64Data, elements};
    case DataType::kUint32:
    case DataType::kUint64:
      return {TensorProto::kUint64Data, elements};
    case DataType::kString:
      return {TensorProto::kStringData, elements};
    default:
      // One value for an element, or for a byte of packed elements.
      return {TensorProto::kInt32Data, DataTypeBits(type) < 8 ? bytes : elements};
  }
}

// Appends typed values to the tensor's memory, whose size was checked against their number.
class TypedDecoder {
 public:
  TypedDecoder(Tensor* tensor, DataType type)
      : type_(type), bits_(DataTypeBits(type)), next_(static_cast<std::byte*>(tensor->mutable_raw_data())) {}

  template <typename T>
  void Append(T value) {
    std::memcpy(next_, &value, sizeof(T));
    next_ += sizeof(T);
  }

  // A value of int32_data, int64_data or uint64_data as it is in the varint; false where the type cannot hold
  // it.
  bool AppendVarint(uint64_t varint) {
    switch (type_) {
      case DataType::kInt64:
      case DataType::kUint64:
        Append(varint);
        return true;
      case DataType::kUint32:
        Append(static_cast<uint32_t>(varint));
        return varint <= std::numeric_limits<uint32_t>::max();
      case DataType::kBool:
        Append(static_cast<uint8_t>(varint != 0));
        return true;
      default:
        break;
    }
    // Writers store unsigned values and bit patterns either as they are or sign-extended.
    const auto value = static_cast<int64_t>(varint);
    const int bits = bits_ < 8 ? 8 : bits_;
    if (bits == 32) {
      Append(static_cast<int32_t>(value));
      return value == static_cast<int32_t>(value);
    }
    if (bits == 16) {
      Append(static_cast<uint16_t>(value));
    } else {
      Append(static_cast<uint8_t>(value));
    }
    return value >= -(int64_t{1} << (bits - 1)) && value < (int64_t{1} << bits);
  }

 private:
  DataType type_;
  int bits_;
  std::byte* next_;
};

std::optional<Tensor> DecodeTyped(ProtoReader message, const TensorFields& fields, DataType type) {
  Result<Tensor> allocated = Tensor::Allocate(type, fields.shape);
  if (!allocated.ok()) {
    message.file().Fail(allocated.status());
    return std::nullopt;
  }
  Tensor tensor = *std::move(allocated);
  if (type == DataType::kString) {
    auto* next = tensor.mutable_data<std::string>();
    while (message.Next(TensorProto::kStringData)) *next++ = message.Text();
    return tensor;
  }
  TypedDecoder decoder(&tensor, type);
  while (message.Next(fields.typed_field)) {
    switch (fields.typed_field) {
      case TensorProto::kFloatData:
        message.EachFixed<float>([&](float value) { decoder.Append(value); });
        break;
      case TensorProto::kDoubleData:
        message.EachFixed<double>([&](double value) { decoder.Append(value); });
        break;
      default:
        message.EachVarint([&](uint64_t varint) {
          if (!decoder.AppendVarint(varint)) {
            message.Fail("tensor '{}': the value {} does not fit {}", fields.name,
                         static_cast<int64_t>(varint), DataTypeName(type));
          }
        });
    }
  }
  return tensor;
}

std::optional<InitializerSource> ReadSource(ProtoReader message, const TensorFields& fields, DataType type,
                                            uint64_t bytes) {
  const auto fail = [&](const auto& text) {
    message.Fail("tensor '{}' ({}{}): {}", fields.name, DataTypeName(type), fields.shape.ToString(), text);
    return std::nullopt;
  };
  if (fields.is_external) {
    if (type == DataType::kString) return fail("strings cannot be external data");
    if (!fields.raw_data.empty() || fields.typed_values > 0) {
      return fail("has both external data and values of its own");
    }
    Result<ExternalDataRef> ref = ParseExternalData(fields.external_data, bytes);
    if (!ref.ok()) return fail(ref.status().message());
    return *std::move(ref);
  }
  if (!fields.raw_data.empty()) {
    if (type == DataType::kString) return fail("strings cannot be raw_data");
    if (fields.typed_values > 0) return fail("has both raw_data and typed values");
    if (fields.raw_data.size() != bytes) {
      return fail(fmt::format("expected {} bytes of raw_data, found {}", bytes, fields.raw_data.size()));
    }
    return TensorBytesView{fields.raw_data};
  }
  const auto [field, values] = LayoutOf(type, static_cast<uint64_t>(fields.shape.num_elements()), bytes);
  if (fields.typed_values > 0 && fields.typed_field != field) {
    return fail(fmt::format("has values in field {}, expected them in field {}", fields.typed_field, field));
  }
  if (fields.typed_values != values) {
    return fail(fmt::format("expected {} values, found {}", values, fields.typed_values));
  }
  return DecodeTyped(message, fields, type);
}

}  // namespace

Initializer ReadTensor(ProtoReader message, NamePool& names) {
  const TensorFields fields = ReadFields(message);
  if (!message.ok()) return {};
  const auto type = static_cast<DataType>(fields.data_type);
  if (DataTypeBits(type) == 0) {
    if (fields.data_type == 0) {
      message.Fail("tensor '{}' has no element type", fields.name);
    } else {
      message.FailUnsupported("tensor '{}' has the unknown element type {}", fields.name, fields.data_type);
    }
    return {};
  }
  const Result<uint64_t> bytes = TensorBytes(type, fields.shape);
  if (!bytes.ok()) {
    message.Fail("tensor '{}': {}", fields.name, bytes.status().message());
    return {};
  }
  std::optional<InitializerSource> source = ReadSource(message, fields, type, *bytes);
  if (!source || !message.ok()) return {};
  return {names.Intern(fields.name), type, fields.shape, *std::move(source)};
}

std::shared_ptr<const SparseTensor> ReadSparseTensor(ProtoReader message, NamePool& names) {
  const ProtoReader start = message;
  auto sparse = std::make_shared<SparseTensor>();
  while (message.Next()) {
    switch (message.field()) {
      case SparseTensorProto::kValues:
        sparse->values = ReadTensor(message.Message(), names);
        break;
      case SparseTensorProto::kIndices:
        sparse->indices = ReadTensor(message.Message(), names);
        break;
      case SparseTensorProto::kDims:
        ReadDims(message, sparse->shape);
        break;
      default:
        break;
    }
  }
  if (!message.ok()) return nullptr;
  const Status valid = ValidateSparseTensor(*sparse);
  if (!valid.ok()) {
    message = start;
    message.Fail("sparse tensor '{}': {}", sparse->values.name.view(), valid.message());
    return nullptr;
  }
  return sparse;
}

}  // namespace lamina::onnx
