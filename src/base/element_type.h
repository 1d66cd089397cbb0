// The C++ types of tensor elements: DataTypeOf<T>, and dispatch from a DataType to a function template.
#pragma once

#include <complex>
#include <cstdint>
#include <string>
#include <type_traits>

#include "base/half.h"
#include "lamina/types.h"

namespace lamina {

// DataTypeOf<float> == DataType::kFloat. Only for types that one C++ type stands for: not fp8 and packed
// types.
template <typename T>
inline constexpr DataType DataTypeOf = DataType::kUndefined;
template <>
inline constexpr DataType DataTypeOf<float> = DataType::kFloat;
template <>
inline constexpr DataType DataTypeOf<double> = DataType::kDouble;
template <>
inline constexpr DataType DataTypeOf<Float16> = DataType::kFloat16;
template <>
inline constexpr DataType DataTypeOf<Bfloat16> = DataType::kBfloat16;
template <>
inline constexpr DataType DataTypeOf<int8_t> = DataType::kInt8;
template <>
inline constexpr DataType DataTypeOf<int16_t> = DataType::kInt16;
template <>
inline constexpr DataType DataTypeOf<int32_t> = DataType::kInt32;
template <>
inline constexpr DataType DataTypeOf<int64_t> = DataType::kInt64;
template <>
inline constexpr DataType DataTypeOf<uint8_t> = DataType::kUint8;
template <>
inline constexpr DataType DataTypeOf<uint16_t> = DataType::kUint16;
template <>
inline constexpr DataType DataTypeOf<uint32_t> = DataType::kUint32;
template <>
inline constexpr DataType DataTypeOf<uint64_t> = DataType::kUint64;
template <>
inline constexpr DataType DataTypeOf<bool> = DataType::kBool;
template <>
inline constexpr DataType DataTypeOf<std::string> = DataType::kString;
template <>
inline constexpr DataType DataTypeOf<std::complex<float>> = DataType::kComplex64;
template <>
inline constexpr DataType DataTypeOf<std::complex<double>> = DataType::kComplex128;

// Whether T is stored in 16 bits and computed in float.
template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>;

// The type arithmetic on T is done in.
template <typename T>
using ComputeType = std::conditional_t<kIsHalf<T>, float, T>;

template <typename T>
struct TypeTag {
  using type = T;
};

// Calls function(TypeTag<T>()) for the T among `Ts` that stands for `type`; false where none does.
//
//   DispatchType<float, double>(type, [&](auto tag) { Run<typename decltype(tag)::type>(); })
template <typename... Ts, typename F>
bool DispatchType(DataType type, F&& function) {
  return ((type == DataTypeOf<Ts> ? (function(TypeTag<Ts>()), true) : false) || ...);
}

}  // namespace lamina
