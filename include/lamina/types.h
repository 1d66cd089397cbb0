// Element types and shapes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "lamina/status.h"

namespace lamina {

// Element types with the numbers of ONNX TensorProto.DataType.
enum class DataType : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBfloat16 = 16,
  kFloat8E4M3Fn = 17,
  kFloat8E4M3Fnuz = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2Fnuz = 20,
  kUint4 = 21,
  kInt4 = 22,
  kFloat4E2M1 = 23,
  kFloat8E8M0 = 24,
  kUint2 = 25,
  kInt2 = 26,
};

// "float", "float16", "int4", ...: the names ONNX uses in lower case; "undefined" for a number it does not
// have.
std::string_view DataTypeName(DataType type);

// Bits one element takes in a tensor's buffer. Sub-byte types are packed, low bits first. A string element is
// a std::string object. 0 for kUndefined and unknown numbers.
int DataTypeBits(DataType type);

// The dimensions of a tensor. Holds them inline, so that making and copying shapes never allocates.
class Shape {
 public:
  static constexpr int kMaxRank = 16;

  Shape() = default;
  // REQUIRES: at most kMaxRank dimensions (readers of files check first).
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims);

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return dims_[static_cast<size_t>(axis)]; }
  int64_t& operator[](int axis) { return dims_[static_cast<size_t>(axis)]; }
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + rank_; }
  // REQUIRES: rank() < kMaxRank.
  void Append(int64_t dim) { dims_[static_cast<size_t>(rank_++)] = dim; }

  // Product of all dimensions; 1 for a scalar. Shapes of existing tensors do not overflow (see TensorBytes).
  int64_t num_elements() const { return num_elements(0, rank_); }
  // Product of the dimensions of axes [begin, end).
  int64_t num_elements(int begin, int end) const;

  std::string ToString() const;  // "[2,3]"
  friend bool operator==(const Shape& a, const Shape& b);

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

// Bytes of a tensor's buffer: ceil(elements * bits / 8). INVALID_ARGUMENT for negative dimensions, a product
// that does not fit, and types without a size.
Result<uint64_t> TensorBytes(DataType type, const Shape& shape);

// What kind of device memory is on, and which of that kind. Host memory is Device{}.
enum class DeviceKind : uint8_t { kCpu = 0, kGpu = 1, kNpu = 2, kFpga = 3 };

struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  int16_t ordinal = 0;  // counts the devices of that kind over all providers of the environment

  bool is_host() const { return kind == DeviceKind::kCpu; }
  std::string ToString() const;  // the designator: "cpu", "gpu:0"
  friend bool operator==(const Device&, const Device&) = default;
};

// The type of a value in a graph: a tensor, or a container of values.
enum class ValueKind : uint8_t { kUndefined = 0, kTensor, kSequence, kOptional, kMap, kSparseTensor };

struct ValueType {
  ValueKind kind = ValueKind::kUndefined;
  // Element type of the tensor, or of the tensors inside the containers (for a map: of its values).
  DataType element = DataType::kUndefined;
  // kSequence and kOptional: what they hold (tensors, or for optional(sequence(tensor)) and sequence(map)
  // a container).
  ValueKind inner = ValueKind::kUndefined;
  DataType map_key = DataType::kUndefined;

  static ValueType Tensor(DataType element) { return {ValueKind::kTensor, element}; }
  static ValueType SequenceOf(DataType element) {
    return {ValueKind::kSequence, element, ValueKind::kTensor};
  }

  bool is_tensor() const { return kind == ValueKind::kTensor; }
  std::string ToString() const;  // "tensor(float)", "seq(tensor(int64))", "optional(seq(tensor(float)))"
  friend bool operator==(const ValueType&, const ValueType&) = default;
};

}  // namespace lamina
