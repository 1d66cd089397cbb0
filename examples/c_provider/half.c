#include "half.h"

#include <string.h>

float HalfToFloat(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
  const uint32_t exponent = half >> 10 & 0x1fu;
  const uint32_t mantissa = half & 0x3ffu;
  uint32_t bits;
  float number;
  if (exponent == 0) {
    /* zero or subnormal: mantissa * 2^-24 */
    number = (float)mantissa * 5.9604644775390625e-8f;
    return sign ? -number : number;
  }
  bits =
      exponent == 0x1f ? sign | 0x7f800000u | mantissa << 13 : sign | (exponent + 112) << 23 | mantissa << 13;
  memcpy(&number, &bits, sizeof(number));
  return number;
}

uint16_t FloatToHalf(float number) {
  uint32_t bits;
  uint32_t sign;
  uint32_t magnitude;
  uint32_t rounded;
  memcpy(&bits, &number, sizeof(bits));
  sign = bits >> 16 & 0x8000u;
  magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);  /* not a number */
  if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and more: infinity */
  if (magnitude < 0x38800000u) {
    /* subnormal: adding 0.5 puts the last bit of a half at the last bit of the float */
    float shifted;
    memcpy(&shifted, &magnitude, sizeof(shifted));
    shifted += 0.5f;
    memcpy(&rounded, &shifted, sizeof(rounded));
    return (uint16_t)(sign | (rounded - 0x3f000000u));
  }
  rounded = magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u);
  return (uint16_t)(sign | rounded >> 13);
}
