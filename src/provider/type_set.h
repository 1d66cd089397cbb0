// Sets of element types, as kernels declare them.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "lamina/types.h"

namespace lamina {

class TypeSet {
 public:
  constexpr TypeSet() = default;
  constexpr TypeSet(DataType type) : bits_(Bit(type)) {}  // NOLINT(google-explicit-constructor)
  constexpr TypeSet(std::initializer_list<DataType> types) {
    for (const DataType type : types) bits_ |= Bit(type);
  }
  constexpr bool Contains(DataType type) const { return (bits_ & Bit(type)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  friend constexpr TypeSet operator|(TypeSet a, TypeSet b) {
    TypeSet both;
    both.bits_ = a.bits_ | b.bits_;
    return both;
  }
  friend constexpr bool operator==(TypeSet, TypeSet) = default;

 private:
  static constexpr uint64_t Bit(DataType type) { return uint64_t{1} << (static_cast<uint32_t>(type) & 63); }
  uint64_t bits_ = 0;
};

// fp32, fp16, bf16: what decoders compute in.
inline constexpr TypeSet kHalfAndFloatTypes{DataType::kFloat, DataType::kFloat16, DataType::kBfloat16};
inline constexpr TypeSet kFloatTypes = kHalfAndFloatTypes | DataType::kDouble;
inline constexpr TypeSet kSignedIntTypes{DataType::kInt8, DataType::kInt16, DataType::kInt32,
                                         DataType::kInt64};
inline constexpr TypeSet kUnsignedIntTypes{DataType::kUint8, DataType::kUint16, DataType::kUint32,
                                           DataType::kUint64};
inline constexpr TypeSet kIntTypes = kSignedIntTypes | kUnsignedIntTypes;
inline constexpr TypeSet kNumericTypes = kFloatTypes | kIntTypes;
inline constexpr TypeSet kIndexTypes{DataType::kInt32, DataType::kInt64};
inline constexpr TypeSet kFloat8Types{DataType::kFloat8E4M3Fn, DataType::kFloat8E4M3Fnuz,
                                      DataType::kFloat8E5M2, DataType::kFloat8E5M2Fnuz,
                                      DataType::kFloat8E8M0};
inline constexpr TypeSet kSubByteTypes{DataType::kUint4, DataType::kInt4, DataType::kFloat4E2M1,
                                       DataType::kUint2, DataType::kInt2};
// Every type whose elements are copied as bytes: all but strings.
inline constexpr TypeSet kFixedSizeTypes =
    kNumericTypes | kFloat8Types | kSubByteTypes |
    TypeSet{DataType::kBool, DataType::kComplex64, DataType::kComplex128};
inline constexpr TypeSet kAllTypes = kFixedSizeTypes | DataType::kString;

}  // namespace lamina
