// exp, tanh, erf and sigmoid of vectors. Polynomials fitted at Chebyshev nodes in double precision.
#pragma once

#include "providers/cpu/simd/vec_inl.h"
#include "providers/cpu/simd/vec_math.h"

namespace lamina {
namespace {

// e^x within 1.5 ULP; subnormal results included, 0 below -104, infinity above 88.8; NaN stays NaN.
// x = n ln2 + r with |r| <= ln2 / 2; e^r by a polynomial of degree 6; 2^n in two factors, so that both are
// normal numbers.
LAMINA_INLINE VecF Exp(VecF x) {
  const VecF clamped_above = x > 89.0f ? Set1(89.0f) : x;
  const VecF clamped = clamped_above < -104.5f ? Set1(-104.5f) : clamped_above;
  // Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits.
  const VecF shifted = clamped * 0x1.715476p0f + 0x1.8p23f;
  const VecI n = Bits(shifted) - Bits(Set1(0x1.8p23f));
  const VecF n_float = shifted - 0x1.8p23f;
  const VecF r = (clamped - n_float * 0x1.62e4p-1f) - n_float * 0x1.7f7d1cp-20f;
  VecF p = r * 0.0013926175888627768f + 0.008363173343241215f;
  p = p * r + 0.041666556149721146f;
  p = p * r + 0.16666577756404877f;
  p = p * r + 0.5f;
  p = p * (r * r) + r + 1.0f;
  const VecI half_n = n >> 1;
  const VecF scale_a = FromBits((half_n + 127) << 23);
  const VecF scale_b = FromBits((n - half_n + 127) << 23);
  return p * scale_a * scale_b;
}

LAMINA_INLINE VecF Sigmoid(VecF x) { return 1.0f / (1.0f + Exp(-x)); }

// Within 3 ULP.
LAMINA_INLINE VecF Tanh(VecF x) {
  const VecF magnitude = Abs(x);
  const VecF s = x * x;
  VecF p = s * -0.005657135043293238f + 0.020588191226124763f;
  p = p * s + -0.05372010916471481f;
  p = p * s + 0.13331113755702972f;
  p = p * s + -0.3333325982093811f;
  const VecF small = p * s * x + x;
  const VecF large = 1.0f - 2.0f / (Exp(magnitude + magnitude) + 1.0f);
  return magnitude < 0.625f ? small : CopySign(large, x);
}

// Within 4 ULP: x times a polynomial in x^2 below 1, else 1 - e^q(|x|) with q = log(erfc).
LAMINA_INLINE VecF Erf(VecF x) {
  const VecF magnitude = Abs(x);
  const VecF s = x * x;
  VecF p = s * -9.667044650996104e-06f + 0.00011265958892181516f;
  p = p * s + -0.0008484080317430198f;
  p = p * s + 0.005221031606197357f;
  p = p * s + -0.026865430176258087f;
  p = p * s + 0.11283782124519348f;
  p = p * s + -0.37612637877464294f;
  p = p * s + 1.128379225730896f;
  const VecF m = magnitude > 4.0f ? Set1(4.0f) : magnitude;
  VecF q = m * 1.6371513993362896e-06f + -4.605804133461788e-05f;
  q = q * m + 0.0005968056502752006f;
  q = q * m + -0.004759596195071936f;
  q = q * m + 0.026421135291457176f;
  q = q * m + -0.11008008569478989f;
  q = q * m + -0.6318260431289673f;
  q = q * m + -1.1302334070205688f;
  q = q * m + 0.0003201380604878068f;
  return magnitude < 1.0f ? p * x : CopySign(1.0f - Exp(q), x);
}

LAMINA_INLINE VecF Silu(VecF x) { return x * Sigmoid(x); }
LAMINA_INLINE VecF GeluErf(VecF x) { return 0.5f * x * (1.0f + Erf(x * 0x1.6a09e6p-1f)); }
LAMINA_INLINE VecF GeluTanh(VecF x) {
  return 0.5f * x * (1.0f + Tanh(0.7978845608028654f * (x + 0.044715f * x * x * x)));
}

// Applies F to every element of `input` [count].
template <VecF (*F)(VecF)>
inline void MapArray(const float* input, float* output, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) Store(output + i, F(Load(input + i)));
  if (i < count) StorePartial(output + i, F(LoadPartial(input + i, count - i)), count - i);
}

inline void QuickGeluArray(const float* input, float* output, int64_t count, float alpha) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const VecF x = Load(input + i);
    Store(output + i, x * Sigmoid(alpha * x));
  }
  if (i < count) {
    const VecF x = LoadPartial(input + i, count - i);
    StorePartial(output + i, x * Sigmoid(alpha * x), count - i);
  }
}

template <typename T>
inline void ToFloatArray(const T* input, float* output, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) Store(output + i, Load(input + i));
  if (i < count) StorePartial(output + i, LoadPartial(input + i, count - i), count - i);
}

template <typename T>
inline void FromFloatArray(const float* input, T* output, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) Store(output + i, Load(input + i));
  if (i < count) StorePartial(output + i, LoadPartial(input + i, count - i), count - i);
}

// The table of this instruction set (vec_math.h).
inline constexpr VecMath kVecMath = {
    MapArray<Exp>,         MapArray<Tanh>,         MapArray<Erf>,           MapArray<Sigmoid>,
    MapArray<Silu>,        MapArray<GeluErf>,      MapArray<GeluTanh>,      QuickGeluArray,
    ToFloatArray<Float16>, ToFloatArray<Bfloat16>, FromFloatArray<Float16>, FromFloatArray<Bfloat16>};

}  // namespace
}  // namespace lamina
