#include "lamina/types.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <limits>

#include "base/error.h"

namespace lamina {
namespace {

struct TypeTraits {
  std::string_view name;
  int bits;
};

// Indexed by the number of the type.
constexpr std::array<TypeTraits, 27> kTypes = {{
    {"undefined", 0},      {"float", 32},     {"uint8", 8},
    {"int8", 8},           {"uint16", 16},    {"int16", 16},
    {"int32", 32},         {"int64", 64},     {"string", 8 * sizeof(std::string)},
    {"bool", 8},           {"float16", 16},   {"double", 64},
    {"uint32", 32},        {"uint64", 64},    {"complex64", 64},
    {"complex128", 128},   {"bfloat16", 16},  {"float8e4m3fn", 8},
    {"float8e4m3fnuz", 8}, {"float8e5m2", 8}, {"float8e5m2fnuz", 8},
    {"uint4", 4},          {"int4", 4},       {"float4e2m1", 4},
    {"float8e8m0", 8},     {"uint2", 2},      {"int2", 2},
}};

const TypeTraits& TraitsOf(DataType type) {
  const auto index = static_cast<size_t>(type);  // negative numbers become large
  return index < kTypes.size() ? kTypes[index] : kTypes[0];
}

}  // namespace

std::string_view DataTypeName(DataType type) { return TraitsOf(type).name; }

int DataTypeBits(DataType type) { return TraitsOf(type).bits; }

Shape::Shape(std::span<const int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  assert(dims.size() <= kMaxRank);
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

int64_t Shape::num_elements(int begin, int end) const {
  int64_t product = 1;
  for (int axis = begin; axis < end; ++axis) product *= (*this)[axis];
  return product;
}

std::string Shape::ToString() const { return fmt::format("[{}]", fmt::join(begin(), end(), ",")); }

bool operator==(const Shape& a, const Shape& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

Result<uint64_t> TensorBytes(DataType type, const Shape& shape) {
  const int bits = DataTypeBits(type);
  if (bits == 0) return InvalidArgumentError("type {} has no size", static_cast<int>(type));
  bool empty = false;
  uint64_t elements = 1;
  bool overflow = false;
  for (const int64_t dim : shape) {
    if (dim < 0) return InvalidArgumentError("shape {} has a negative dimension", shape.ToString());
    if (dim == 0) empty = true;
    overflow |= dim > 0 && __builtin_mul_overflow(elements, static_cast<uint64_t>(dim), &elements);
  }
  // The limit leaves room for callers to add offsets and alignment without checks of their own. It holds for
  // empty tensors too: partial products of their dimensions must not overflow either.
  if (overflow || elements > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / 256) {
    return InvalidArgumentError("shape {} of {} is too large: the number of its elements overflows",
                                shape.ToString(), DataTypeName(type));
  }
  if (empty) return uint64_t{0};
  return (elements * static_cast<uint64_t>(bits) + 7) / 8;
}

std::string Device::ToString() const {
  switch (kind) {
    case DeviceKind::kCpu:
      return "cpu";
    case DeviceKind::kGpu:
      return fmt::format("gpu:{}", ordinal);
    case DeviceKind::kNpu:
      return fmt::format("npu:{}", ordinal);
    case DeviceKind::kFpga:
      return fmt::format("fpga:{}", ordinal);
  }
  return "unknown";
}

std::string ValueType::ToString() const {
  std::string tensor = fmt::format("tensor({})", DataTypeName(element));
  switch (kind) {
    case ValueKind::kUndefined:
      return "undefined";
    case ValueKind::kTensor:
      return tensor;
    case ValueKind::kSparseTensor:
      return fmt::format("sparse_tensor({})", DataTypeName(element));
    case ValueKind::kMap:
      return fmt::format("map({},{})", DataTypeName(map_key), tensor);
    case ValueKind::kSequence:
    case ValueKind::kOptional: {
      const std::string outer = kind == ValueKind::kSequence ? "seq" : "optional";
      if (inner == ValueKind::kTensor) return fmt::format("{}({})", outer, tensor);
      ValueType held = *this;
      held.kind = inner;
      held.inner = ValueKind::kTensor;
      return fmt::format("{}({})", outer, held.ToString());
    }
  }
  return "undefined";
}

}  // namespace lamina
