// Conversion of runs of elements between types: the engine of Cast, and the way other kernels read and write
// the types they do not compute in.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/small_float.h"
#include "lamina/types.h"

namespace lamina {

// A number of one C++ type as another, defined for all values: NaN becomes integer 0, what an integer cannot
// hold its nearest bound; integers wrap around; everything but zero is true.
template <typename To, typename From>
To ConvertNumber(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    // The bounds as From are exact or just outside of what To holds.
    constexpr auto kHigh = static_cast<From>(std::numeric_limits<To>::max());
    constexpr auto kLow = static_cast<From>(std::numeric_limits<To>::min());
    if (!(value < kHigh)) return value != value ? To(0) : std::numeric_limits<To>::max();
    if (value <= kLow) return std::numeric_limits<To>::min();
    return static_cast<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

struct ConvertOptions {
  Saturate saturate = Saturate::kYes;  // of fp8 results
  E8M0Rounding e8m0_rounding = E8M0Rounding::kUp;
};

// Whether ConvertElements reads and writes the type: all but strings and complex numbers.
bool IsConvertible(DataType type);

// Elements [first, first + count) of `source` into the same places of `target`. Where a type is narrower than
// a byte, `first` must be at the start of a byte (a multiple of 8 is). REQUIRES: IsConvertible(from) and
// IsConvertible(to).
void ConvertElements(DataType from, const void* source, DataType to, void* target, int64_t first,
                     int64_t count, const ConvertOptions& options = {});

// Elements [first, first + count) as floats, or floats as these elements. Any convertible type.
void ReadFloats(DataType type, const void* source, int64_t first, int64_t count, float* values);
void WriteFloats(DataType type, const float* values, void* target, int64_t first, int64_t count,
                 const ConvertOptions& options = {});

// The 4- or 2-bit integer at `index` of a packed buffer, and the way back (the low bits of `value`).
int ReadPackedInt(DataType type, const void* source, int64_t index);
void WritePackedInt(DataType type, void* target, int64_t index, int value);

}  // namespace lamina
