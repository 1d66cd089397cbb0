#include "lamina/value.h"

#include <cassert>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "base/error.h"

namespace lamina {
namespace {

constexpr size_t kHostAlignment = 64;

}  // namespace

Result<Tensor> Tensor::Allocate(DataType type, const Shape& shape) {
  LAMINA_ASSIGN_OR_RETURN(const uint64_t bytes, TensorBytes(type, shape));
  const uint64_t rounded_bytes = (bytes + kHostAlignment - 1) / kHostAlignment * kHostAlignment;
  void* memory = std::aligned_alloc(kHostAlignment, rounded_bytes == 0 ? kHostAlignment : rounded_bytes);
  if (!memory) {
    return Status::OutOfMemory(fmt::format("host memory: cannot allocate {} bytes for a tensor {}{}", bytes,
                                           DataTypeName(type), shape.ToString()),
                               MemoryShortage{"cpu", bytes, 0, {}});
  }
  if (type == DataType::kString) {
    auto* strings = static_cast<std::string*>(memory);
    const auto count = static_cast<size_t>(shape.num_elements());
    std::uninitialized_value_construct_n(strings, count);
    return Owning(type, shape, memory, bytes, std::shared_ptr<const void>(memory, [count](void* p) {
                    std::destroy_n(static_cast<std::string*>(p), count);
                    std::free(p);
                  }));
  }
  std::memset(memory, 0, bytes);
  return Owning(type, shape, memory, bytes, std::shared_ptr<const void>(memory, std::free));
}

Tensor Tensor::View(DataType type, const Shape& shape, void* data, uint64_t capacity_bytes, Device device) {
  return Owning(type, shape, data, capacity_bytes, nullptr, device);
}

Tensor Tensor::Owning(DataType type, const Shape& shape, void* data, uint64_t capacity_bytes,
                      std::shared_ptr<const void> owner, Device device) {
  Tensor tensor;
  tensor.type_ = type;
  tensor.device_ = device;
  tensor.shape_ = shape;
  tensor.data_ = data;
  tensor.capacity_bytes_ = capacity_bytes;
  tensor.owner_ = std::move(owner);
  return tensor;
}

Result<Tensor> Tensor::FromStrings(const Shape& shape, std::span<const std::string> values) {
  if (static_cast<int64_t>(values.size()) != shape.num_elements()) {
    return InvalidArgumentError("Tensor::FromStrings: {} values for shape {}", values.size(),
                                shape.ToString());
  }
  LAMINA_ASSIGN_OR_RETURN(Tensor tensor, Allocate(DataType::kString, shape));
  std::copy(values.begin(), values.end(), tensor.mutable_data<std::string>());
  return tensor;
}

uint64_t Tensor::size_bytes() const {
  return (static_cast<uint64_t>(num_elements()) * static_cast<uint64_t>(DataTypeBits(type_)) + 7) / 8;
}

Tensor Tensor::Reshaped(const Shape& shape) const {
  Tensor tensor = *this;
  tensor.shape_ = shape;
  assert(tensor.size_bytes() <= capacity_bytes_);
  return tensor;
}

Result<Tensor> Tensor::Clone() const {
  LAMINA_ASSIGN_OR_RETURN(Tensor copy, Allocate(type_, shape_));
  if (type_ == DataType::kString) {
    const auto source = elements<std::string>();
    std::copy(source.begin(), source.end(), copy.mutable_data<std::string>());
  } else if (const uint64_t bytes = size_bytes(); bytes > 0) {
    std::memcpy(copy.mutable_raw_data(), raw_data(), bytes);
  }
  return copy;
}

Value::Value(Sequence sequence) : content_(std::make_shared<const Sequence>(std::move(sequence))) {}
Value::Value(Optional optional) : content_(std::make_shared<const Optional>(std::move(optional))) {}
Value::Value(Map map) : content_(std::make_shared<const Map>(std::move(map))) {}

ValueKind Value::kind() const {
  constexpr ValueKind kKinds[] = {ValueKind::kUndefined, ValueKind::kTensor, ValueKind::kSequence,
                                  ValueKind::kOptional, ValueKind::kMap};
  return kKinds[content_.index()];
}

ValueType Value::type() const {
  switch (kind()) {
    case ValueKind::kTensor:
      return ValueType::Tensor(tensor().type());
    case ValueKind::kSequence: {
      ValueType type = ValueType::SequenceOf(sequence().element);
      if (!sequence().items.empty() && !sequence().items.front().is_tensor()) {
        const ValueType held = sequence().items.front().type();
        type.inner = held.kind;
        type.map_key = held.map_key;
      }
      return type;
    }
    case ValueKind::kOptional: {
      ValueType type = optional().type;
      type.inner = type.kind;
      type.kind = ValueKind::kOptional;
      return type;
    }
    case ValueKind::kMap:
      return {ValueKind::kMap, map().value, ValueKind::kUndefined, map().key};
    default:
      return {};
  }
}

}  // namespace lamina
