// Values that enter and leave a session: tensors, sequences, optionals and maps.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lamina/status.h"
#include "lamina/types.h"

namespace lamina {

// A contiguous, row-major tensor: type, shape and a reference to memory on a device. Copying a Tensor copies
// the reference, not the elements (the copy shares the memory); CopyTo and Clone copy elements.
// The memory behind a tensor may be larger than the shape needs (capacity_bytes).
class Tensor {
 public:
  Tensor() = default;

  // Host memory, aligned to 64 bytes, elements zero (strings empty). Errors: TensorBytes; RESOURCE_EXHAUSTED.
  static Result<Tensor> Allocate(DataType type, const Shape& shape);
  // A tensor over memory of the caller, which must outlive every copy of the tensor.
  static Tensor View(DataType type, const Shape& shape, void* data, uint64_t capacity_bytes,
                     Device device = {});
  // A tensor over memory kept alive by `owner`.
  static Tensor Owning(DataType type, const Shape& shape, void* data, uint64_t capacity_bytes,
                       std::shared_ptr<const void> owner, Device device = {});
  // A host tensor with a copy of `values`. T is the C++ type of a whole-byte element type.
  template <typename T>
  static Result<Tensor> FromValues(DataType type, const Shape& shape, std::span<const T> values);
  // A tensor of type kString with a copy of `values`.
  static Result<Tensor> FromStrings(const Shape& shape, std::span<const std::string> values);

  bool defined() const { return type_ != DataType::kUndefined; }
  DataType type() const { return type_; }
  const Shape& shape() const { return shape_; }
  int64_t num_elements() const { return shape_.num_elements(); }
  // Bytes the elements take.
  uint64_t size_bytes() const;
  uint64_t capacity_bytes() const { return capacity_bytes_; }
  const Device& device() const { return device_; }

  const void* raw_data() const { return data_; }
  void* mutable_raw_data() { return data_; }
  // REQUIRES: host memory; T is the C++ type of the elements.
  template <typename T>
  const T* data() const {
    return static_cast<const T*>(data_);
  }
  template <typename T>
  T* mutable_data() {
    return static_cast<T*>(data_);
  }
  template <typename T>
  std::span<const T> elements() const {
    return {data<T>(), static_cast<size_t>(num_elements())};
  }
  template <typename T>
  std::span<T> mutable_elements() {
    return {mutable_data<T>(), static_cast<size_t>(num_elements())};
  }

  // The same memory under another shape (and, for views, element type). REQUIRES: it fits the capacity.
  Tensor Reshaped(const Shape& shape) const;
  // A copy of the elements in fresh host memory. REQUIRES: host memory.
  Result<Tensor> Clone() const;
  // Whether two tensors share the first byte of their memory.
  bool SharesMemoryWith(const Tensor& other) const { return data_ != nullptr && data_ == other.data_; }
  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  DataType type_ = DataType::kUndefined;
  Device device_;
  Shape shape_;
  void* data_ = nullptr;
  uint64_t capacity_bytes_ = 0;
  std::shared_ptr<const void> owner_;
};

class Value;

// A sequence of values of one type.
struct Sequence {
  DataType element = DataType::kUndefined;
  std::vector<Value> items;
};

// An optional value of a known type, present or not.
struct Optional {
  ValueType type;
  std::unique_ptr<Value> value;  // null: absent
};

// A map as the ai.onnx.ml operators use it. Keys are integers or strings; values scalars or strings.
struct Map {
  DataType key = DataType::kUndefined;
  DataType value = DataType::kUndefined;
  std::map<std::variant<int64_t, std::string>, std::variant<int64_t, double, std::string>> entries;
};

// Cheap to copy: containers are shared and immutable once they are in a Value.
class Value {
 public:
  Value() = default;                                     // undefined
  Value(Tensor tensor) : content_(std::move(tensor)) {}  // NOLINT(google-explicit-constructor)
  explicit Value(Sequence sequence);
  explicit Value(Optional optional);
  explicit Value(Map map);

  ValueKind kind() const;
  bool defined() const { return kind() != ValueKind::kUndefined; }
  bool is_tensor() const { return kind() == ValueKind::kTensor; }
  ValueType type() const;

  // REQUIRES: the kind asked for.
  const Tensor& tensor() const { return std::get<Tensor>(content_); }
  Tensor& tensor() { return std::get<Tensor>(content_); }
  const Sequence& sequence() const { return *std::get<std::shared_ptr<const Sequence>>(content_); }
  const Optional& optional() const { return *std::get<std::shared_ptr<const Optional>>(content_); }
  const Map& map() const { return *std::get<std::shared_ptr<const Map>>(content_); }

 private:
  std::variant<std::monostate, Tensor, std::shared_ptr<const Sequence>, std::shared_ptr<const Optional>,
               std::shared_ptr<const Map>>
      content_;
};

template <typename T>
Result<Tensor> Tensor::FromValues(DataType type, const Shape& shape, std::span<const T> values) {
  if (DataTypeBits(type) != static_cast<int>(8 * sizeof(T)) ||
      static_cast<int64_t>(values.size()) != shape.num_elements()) {
    return Status(StatusCode::kInvalidArgument, "Tensor::FromValues: " + std::to_string(values.size()) +
                                                    " values of " + std::to_string(sizeof(T)) +
                                                    " bytes for " + std::string(DataTypeName(type)) +
                                                    shape.ToString());
  }
  Result<Tensor> tensor = Allocate(type, shape);
  if (tensor.ok()) std::copy(values.begin(), values.end(), tensor->template mutable_data<T>());
  return tensor;
}

}  // namespace lamina
