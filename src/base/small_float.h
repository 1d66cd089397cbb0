// Floating-point element types of 8 bits and less, as codes. Conversions from float round to nearest even and
// treat what is out of range as the ONNX operator Cast does; conversions to float are exact. Everything is
// constexpr.
//
//   type      layout  bias  largest  infinity  NaN                negative zero
//   E4M3FN    1-4-3   7     448      no        S.1111.111         yes
//   E4M3FNUZ  1-4-3   8     240      no        1.0000.000         no
//   E5M2      1-5-2   15    57344    yes       S.11111.01 to .11  yes
//   E5M2FNUZ  1-5-2   16    57344    no        1.00000.00         no
//   E2M1      1-2-1   1     6        no        no                 yes  (one nibble)
//   E8M0      0-8-0   127   2^127    no        11111111           no sign, no zero: 2^(code - 127)
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace lamina {

// What becomes of magnitudes above the largest finite one: that one, or infinity (NaN where there is none).
enum class Saturate : bool { kNo, kYes };

namespace internal {

struct SmallFloatFormat {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  uint8_t largest;         // code of the largest finite magnitude
  uint8_t infinity;        // code of what lies above; of NaN where there is no infinity
  uint8_t nan;             // without its sign
  bool negative_nan_only;  // "UZ": the code of negative zero is the only NaN
};

constexpr uint8_t SignBit(const SmallFloatFormat& format) {
  return static_cast<uint8_t>(1 << (format.exponent_bits + format.mantissa_bits));
}

constexpr uint8_t FloatToCode(const SmallFloatFormat& format, float value, Saturate saturate) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const auto sign = static_cast<uint8_t>((bits >> 31) != 0 ? SignBit(format) : 0);
  if (magnitude > 0x7f800000u) {
    return format.negative_nan_only ? format.nan : static_cast<uint8_t>(sign | format.nan);
  }

  // The value is mantissa * 2^(exponent - 23); codes count steps from zero, so that a carry out of the
  // rounded mantissa is the next exponent and out of a subnormal the first normal number.
  const int smallest_exponent = 1 - format.bias;
  const int float_exponent = static_cast<int>(magnitude >> 23) - 127;
  const int exponent = float_exponent < smallest_exponent ? smallest_exponent : float_exponent;
  const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  const int shift = 23 - format.mantissa_bits + (exponent - float_exponent);
  uint32_t steps = 0;  // float subnormals and all else below half of the smallest code
  if (shift <= 25) {
    steps = mantissa >> shift;
    const uint32_t rest = mantissa & ((1u << shift) - 1);
    const uint32_t half = 1u << (shift - 1);
    if (rest > half || (rest == half && (steps & 1) != 0)) ++steps;
  }
  const uint32_t code = (static_cast<uint32_t>(exponent - smallest_exponent) << format.mantissa_bits) + steps;
  if (code > format.largest) {
    if (saturate == Saturate::kYes) return static_cast<uint8_t>(sign | format.largest);
    return format.negative_nan_only ? format.nan : static_cast<uint8_t>(sign | format.infinity);
  }
  if (code == 0 && format.negative_nan_only) return 0;
  return static_cast<uint8_t>(sign | code);
}

constexpr float CodeToFloat(const SmallFloatFormat& format, uint8_t code) {
  const uint32_t magnitude = code & (SignBit(format) - 1u);
  const bool negative = (code & SignBit(format)) != 0;
  if (format.negative_nan_only && code == format.nan) return std::numeric_limits<float>::quiet_NaN();
  if (magnitude > format.largest) {
    if (magnitude != format.infinity || format.infinity == format.nan) {
      return std::bit_cast<float>(negative ? 0xffc00000u : 0x7fc00000u);
    }
    return negative ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
  }
  const uint32_t exponent = magnitude >> format.mantissa_bits;
  const uint32_t mantissa = magnitude & ((1u << format.mantissa_bits) - 1u);
  float value = 0;
  if (exponent == 0) {
    const int unit_exponent = 1 - format.bias - format.mantissa_bits;
    value =
        static_cast<float>(mantissa) * std::bit_cast<float>(static_cast<uint32_t>(unit_exponent + 127) << 23);
  } else {
    const uint32_t float_exponent = exponent + static_cast<uint32_t>(127 - format.bias);
    value = std::bit_cast<float>(float_exponent << 23 | mantissa << (23 - format.mantissa_bits));
  }
  return negative ? -value : value;
}

inline constexpr SmallFloatFormat kE4M3Fn{4, 3, 7, 0x7e, 0x7f, 0x7f, false};
inline constexpr SmallFloatFormat kE4M3Fnuz{4, 3, 8, 0x7f, 0x80, 0x80, true};
inline constexpr SmallFloatFormat kE5M2{5, 2, 15, 0x7b, 0x7c, 0x7e, false};
inline constexpr SmallFloatFormat kE5M2Fnuz{5, 2, 16, 0x7f, 0x80, 0x80, true};
inline constexpr SmallFloatFormat kE2M1{2, 1, 1, 0x7, 0x7, 0x8, false};  // its NaN: see FloatToE2M1

}  // namespace internal

constexpr uint8_t FloatToE4M3Fn(float value, Saturate saturate = Saturate::kYes) {
  return internal::FloatToCode(internal::kE4M3Fn, value, saturate);
}
constexpr float E4M3FnToFloat(uint8_t code) { return internal::CodeToFloat(internal::kE4M3Fn, code); }

constexpr uint8_t FloatToE4M3Fnuz(float value, Saturate saturate = Saturate::kYes) {
  return internal::FloatToCode(internal::kE4M3Fnuz, value, saturate);
}
constexpr float E4M3FnuzToFloat(uint8_t code) { return internal::CodeToFloat(internal::kE4M3Fnuz, code); }

constexpr uint8_t FloatToE5M2(float value, Saturate saturate = Saturate::kYes) {
  return internal::FloatToCode(internal::kE5M2, value, saturate);
}
constexpr float E5M2ToFloat(uint8_t code) { return internal::CodeToFloat(internal::kE5M2, code); }

constexpr uint8_t FloatToE5M2Fnuz(float value, Saturate saturate = Saturate::kYes) {
  return internal::FloatToCode(internal::kE5M2Fnuz, value, saturate);
}
constexpr float E5M2FnuzToFloat(uint8_t code) { return internal::CodeToFloat(internal::kE5M2Fnuz, code); }

// In and out the low nibble; always saturates. There is no NaN: it becomes negative zero, which is what the
// ONNX conformance data expects.
constexpr uint8_t FloatToE2M1(float value) {
  return internal::FloatToCode(internal::kE2M1, value, Saturate::kYes) & 0xf;
}
constexpr float E2M1ToFloat(uint8_t nibble) { return internal::CodeToFloat(internal::kE2M1, nibble & 0xf); }

// Cast's round_mode, which exists for E8M0 only.
enum class E8M0Rounding : uint8_t { kUp, kDown, kNearest };  // kNearest: ties go up

// The sign is ignored. Zero and other magnitudes below 2^-127 become 2^-127; without saturation they become
// NaN, as magnitudes that round to more than 2^127 do.
constexpr uint8_t FloatToE8M0(float value, Saturate saturate = Saturate::kYes,
                              E8M0Rounding rounding = E8M0Rounding::kUp) {
  constexpr uint8_t kNan = 0xff;
  constexpr uint8_t kLargest = 0xfe;
  constexpr uint32_t kSmallest = 0x00400000u;  // 2^-127 is a subnormal float
  const uint32_t magnitude = std::bit_cast<uint32_t>(value) & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return kNan;
  if (magnitude == 0x7f800000u) return saturate == Saturate::kYes ? kLargest : kNan;
  if (magnitude < kSmallest) return saturate == Saturate::kYes ? 0 : kNan;
  // Where a float lies between 2^(code - 127) and the next power: in 2^-23 steps of it for normal numbers.
  const uint32_t code = magnitude >> 23;
  const uint32_t power = code == 0 ? kSmallest : code << 23;
  const uint32_t gap = code == 0 ? kSmallest : 0x00800000u;
  const uint32_t above = magnitude - power;
  bool up = false;
  switch (rounding) {
    case E8M0Rounding::kUp:
      up = above > 0;
      break;
    case E8M0Rounding::kDown:
      break;
    case E8M0Rounding::kNearest:
      up = above >= gap / 2;
      break;
  }
  const uint32_t rounded = code + (up ? 1 : 0);
  if (rounded > kLargest) return saturate == Saturate::kYes ? kLargest : kNan;
  return static_cast<uint8_t>(rounded);
}
constexpr float E8M0ToFloat(uint8_t code) {
  if (code == 0xff) return std::numeric_limits<float>::quiet_NaN();
  return std::bit_cast<float>(code == 0 ? 0x00400000u : static_cast<uint32_t>(code) << 23);
}

}  // namespace lamina
