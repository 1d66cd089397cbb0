// 16-bit floating-point element types, stored as bits and computed with in fp32. Conversions from float
// round to nearest even; those of one value are branch-free enough for the compiler to vectorise loops.
#pragma once

#include <bit>
#include <cstdint>

namespace lamina {

inline float HalfBitsToFloat(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  // Rebias the exponent by 127 - 15; infinity and NaN need it a second time to reach 255.
  const uint32_t normal = (magnitude << 13) + (magnitude >= 0x7c00u ? 0x70000000u : 0x38000000u);
  // A subnormal counts units of 2^-24.
  const uint32_t subnormal = std::bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1p-24f);
  return std::bit_cast<float>(sign | (magnitude < 0x0400u ? subnormal : normal));
}

inline uint16_t FloatToHalfBits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t special = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  // Adding 0.5, whose unit in the last place is 2^-24, rounds to a whole number of subnormal units.
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - std::bit_cast<uint32_t>(0.5f);
  const uint32_t normal = (magnitude - 0x38000000u + 0x0fffu + ((magnitude >> 13) & 1u)) >> 13;
  const uint32_t finite = magnitude < 0x38800000u ? subnormal : normal;
  return static_cast<uint16_t>(sign | (magnitude >= 0x47800000u ? special : finite));
}

inline float Bfloat16BitsToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

inline uint16_t FloatToBfloat16Bits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return static_cast<uint16_t>(nan ? (bits >> 16) | 0x0040u : rounded);
}

// IEEE binary16.
struct Float16 {
  Float16() = default;
  explicit Float16(float value) : bits(FloatToHalfBits(value)) {}
  static Float16 FromBits(uint16_t bits) {
    Float16 half;
    half.bits = bits;
    return half;
  }
  operator float() const { return HalfBitsToFloat(bits); }  // NOLINT(google-explicit-constructor): exact
  uint16_t bits;
};

// The upper half of a float.
struct Bfloat16 {
  Bfloat16() = default;
  explicit Bfloat16(float value) : bits(FloatToBfloat16Bits(value)) {}
  static Bfloat16 FromBits(uint16_t bits) {
    Bfloat16 half;
    half.bits = bits;
    return half;
  }
  operator float() const { return Bfloat16BitsToFloat(bits); }  // NOLINT(google-explicit-constructor): exact
  uint16_t bits;
};

}  // namespace lamina
