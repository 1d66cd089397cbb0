#include "model/shape_inference/constant_elements.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lamina {
namespace {

template <typename T>
SymbolicElements Decode(const Tensor& tensor) {
  std::vector<DimExpr> elements(static_cast<size_t>(tensor.num_elements()));
  const auto* bytes = static_cast<const std::byte*>(tensor.raw_data());
  for (size_t i = 0; i < elements.size(); ++i) {
    T value;
    std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
    elements[i] = static_cast<int64_t>(value);
  }
  return std::make_shared<const std::vector<DimExpr>>(std::move(elements));
}

// Floats that are whole numbers, as in shape arithmetic that goes through floats.
template <typename T>
SymbolicElements DecodeWholeNumbers(const Tensor& tensor) {
  constexpr T kLargest = static_cast<T>(int64_t{1} << std::numeric_limits<T>::digits);
  std::vector<DimExpr> elements(static_cast<size_t>(tensor.num_elements()));
  const auto* bytes = static_cast<const std::byte*>(tensor.raw_data());
  for (size_t i = 0; i < elements.size(); ++i) {
    T value;
    std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
    if (!(std::abs(value) <= kLargest) || std::trunc(value) != value) return nullptr;
    elements[i] = static_cast<int64_t>(value);
  }
  return std::make_shared<const std::vector<DimExpr>>(std::move(elements));
}

template <typename T>
std::optional<Tensor> MakeTensor(DataType type, const Shape& shape, std::span<const T> values) {
  Result<Tensor> tensor = Tensor::FromValues<T>(type, shape, values);
  if (!tensor.ok()) return std::nullopt;
  return *std::move(tensor);
}

template <typename T>
Shape ListShape(const std::vector<T>& list) {
  return Shape{static_cast<int64_t>(list.size())};
}

}  // namespace

SymbolicElements ElementsOfTensor(const Tensor& tensor) {
  if (tensor.num_elements() > kMaxSymbolicElements) return nullptr;
  switch (tensor.type()) {
    case DataType::kInt64:
      return Decode<int64_t>(tensor);
    case DataType::kInt32:
      return Decode<int32_t>(tensor);
    case DataType::kInt16:
      return Decode<int16_t>(tensor);
    case DataType::kInt8:
      return Decode<int8_t>(tensor);
    case DataType::kUint8:
    case DataType::kBool:
      return Decode<uint8_t>(tensor);
    case DataType::kUint16:
      return Decode<uint16_t>(tensor);
    case DataType::kUint32:
      return Decode<uint32_t>(tensor);
    case DataType::kFloat:
      return DecodeWholeNumbers<float>(tensor);
    case DataType::kDouble:
      return DecodeWholeNumbers<double>(tensor);
    default:
      return nullptr;
  }
}

std::optional<Tensor> ReadSmallConstant(const Initializer& initializer, const InferenceOptions& options) {
  if (initializer.size_bytes() > kMaxInferenceConstantBytes) return std::nullopt;
  if (!initializer.is_external()) return initializer.InMemory();
  if (!options.read_external) return std::nullopt;
  Result<Tensor> tensor = options.read_external(initializer);
  if (!tensor.ok()) return std::nullopt;
  return *std::move(tensor);
}

std::optional<Tensor> TensorOfConstantNode(const Node& node, const InferenceOptions& options) {
  for (const Attribute& attribute : node.attributes) {
    const AttributeValue& value = attribute.value;
    if (const auto* tensor = std::get_if<std::shared_ptr<const Initializer>>(&value)) {
      return ReadSmallConstant(**tensor, options);
    }
    if (const auto* number = std::get_if<float>(&value)) {
      return MakeTensor<float>(DataType::kFloat, {}, {number, 1});
    }
    if (const auto* integer = std::get_if<int64_t>(&value)) {
      return MakeTensor<int64_t>(DataType::kInt64, {}, {integer, 1});
    }
    if (const auto* numbers = std::get_if<std::vector<float>>(&value)) {
      return MakeTensor<float>(DataType::kFloat, ListShape(*numbers), *numbers);
    }
    if (const auto* integers = std::get_if<std::vector<int64_t>>(&value)) {
      return MakeTensor<int64_t>(DataType::kInt64, ListShape(*integers), *integers);
    }
  }
  return std::nullopt;
}

}  // namespace lamina
