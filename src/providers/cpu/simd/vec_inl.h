// Vectors of floats in the compiler's own vector types, one source for every instruction set: eight lanes, or
// sixteen where AVX-512 is on. Included only by x_inl.h files, which the per-ISA sources include.
//
// Everything is in an unnamed namespace and always inlined: the same name means other code in each
// translation unit, and the linker must not merge them. For the same reason these files use no inline
// functions of other headers.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/half.h"

#if defined(__F16C__) || defined(__AVX2__)
#include <immintrin.h>
#endif

namespace lamina {
namespace {

#define LAMINA_INLINE inline __attribute__((always_inline))

#if defined(__AVX512F__)
inline constexpr int kLanes = 16;
#else
inline constexpr int kLanes = 8;
#endif

typedef float VecF __attribute__((vector_size(kLanes * 4)));
typedef int32_t VecI __attribute__((vector_size(kLanes * 4)));
typedef uint32_t VecU __attribute__((vector_size(kLanes * 4)));
typedef uint16_t VecU16 __attribute__((vector_size(kLanes * 2)));
typedef float VecF8 __attribute__((vector_size(32)));
typedef int32_t VecI8 __attribute__((vector_size(32)));

LAMINA_INLINE VecF Set1(float value) { return value - VecF{}; }
LAMINA_INLINE VecI Set1(int32_t value) { return value - VecI{}; }
// The bits of one vector as another of the same size.
LAMINA_INLINE VecI Bits(VecF value) { return reinterpret_cast<VecI>(value); }
LAMINA_INLINE VecF FromBits(VecI bits) { return reinterpret_cast<VecF>(bits); }

LAMINA_INLINE VecF Max(VecF a, VecF b) { return a > b ? a : b; }
LAMINA_INLINE VecF Min(VecF a, VecF b) { return a < b ? a : b; }
LAMINA_INLINE VecF Abs(VecF value) { return FromBits(Bits(value) & 0x7fffffff); }
// The magnitude of `magnitude` with the sign of `sign`.
LAMINA_INLINE VecF CopySign(VecF magnitude, VecF sign) {
  return FromBits((Bits(magnitude) & 0x7fffffff) | (Bits(sign) & INT32_MIN));
}

LAMINA_INLINE VecF Load(const float* source) {
  VecF value;
  std::memcpy(&value, source, sizeof value);
  return value;
}
LAMINA_INLINE void Store(float* target, VecF value) { std::memcpy(target, &value, sizeof value); }
LAMINA_INLINE VecI LoadI(const int32_t* source) {
  VecI value;
  std::memcpy(&value, source, sizeof value);
  return value;
}

// The 16 bits of each lane, zero-extended.
LAMINA_INLINE VecU LoadU16(const void* source) {
  VecU16 bits;
  std::memcpy(&bits, source, sizeof bits);
  return __builtin_convertvector(bits, VecU);
}
LAMINA_INLINE void StoreU16(void* target, VecU value) {
  const VecU16 bits = __builtin_convertvector(value, VecU16);
  std::memcpy(target, &bits, sizeof bits);
}

LAMINA_INLINE VecF Load(const Bfloat16* source) { return reinterpret_cast<VecF>(LoadU16(source) << 16); }
LAMINA_INLINE void Store(Bfloat16* target, VecF value) {
  const VecU bits = reinterpret_cast<VecU>(value);
  const VecU rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const VecU quiet_nan = (bits >> 16) | 0x0040;
  StoreU16(target, (bits & 0x7fffffff) > 0x7f800000 ? quiet_nan : rounded);
}

// The masked forms of AVX-512 intrinsics: g++ 12 warns of the undefined vector inside the plain ones.
#if defined(__AVX512F__)
LAMINA_INLINE VecF Load(const Float16* source) {
  return _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source)));
}
LAMINA_INLINE void Store(Float16* target, VecF value) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(target),
                      _mm512_maskz_cvtps_ph(0xffff, value, _MM_FROUND_TO_NEAREST_INT));
}
#elif defined(__F16C__)
LAMINA_INLINE VecF Load(const Float16* source) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(source)));
}
LAMINA_INLINE void Store(Float16* target, VecF value) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(target), _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
}
#else
// As HalfBitsToFloat and FloatToHalfBits of base/half.h, lane by lane.
LAMINA_INLINE VecF Load(const Float16* source) {
  const VecU bits = LoadU16(source);
  const VecU magnitude = bits & 0x7fff;
  const VecU rebias = magnitude >= 0x7c00 ? VecU{} + 0x70000000 : VecU{} + 0x38000000;
  const VecU normal = (magnitude << 13) + rebias;
  const VecF subnormal = __builtin_convertvector(reinterpret_cast<VecI>(magnitude), VecF) * 0x1p-24f;
  const VecU finite = magnitude < 0x0400 ? reinterpret_cast<VecU>(subnormal) : normal;
  return reinterpret_cast<VecF>(((bits & 0x8000) << 16) | finite);
}
LAMINA_INLINE void Store(Float16* target, VecF value) {
  const VecU bits = reinterpret_cast<VecU>(value);
  const VecU magnitude = bits & 0x7fffffff;
  const VecU special = magnitude > 0x7f800000 ? VecU{} + 0x7e00 : VecU{} + 0x7c00;
  const VecU subnormal = reinterpret_cast<VecU>(reinterpret_cast<VecF>(magnitude) + 0.5f) - 0x3f000000;
  const VecU normal = (magnitude - 0x38000000 + 0x0fff + ((magnitude >> 13) & 1)) >> 13;
  const VecU finite = magnitude < 0x38800000 ? subnormal : normal;
  StoreU16(target, ((bits >> 16) & 0x8000) | (magnitude >= 0x47800000 ? special : finite));
}
#endif

// The first `count` < kLanes elements; the other lanes hold `fill`.
template <typename T>
LAMINA_INLINE VecF LoadPartial(const T* source, int64_t count, float fill = 0.0f) {
  T lanes[kLanes] = {};
  std::memcpy(lanes, source, static_cast<size_t>(count) * sizeof(T));
  VecF value = Load(lanes);
  if (fill != 0.0f) {
    float all[kLanes];
    Store(all, value);
    for (int64_t i = count; i < kLanes; ++i) all[i] = fill;
    value = Load(all);
  }
  return value;
}
template <typename T>
LAMINA_INLINE void StorePartial(T* target, VecF value, int64_t count) {
  T lanes[kLanes];
  Store(lanes, value);
  std::memcpy(target, lanes, static_cast<size_t>(count) * sizeof(T));
}

// The eight lanes that reductions end with.
LAMINA_INLINE VecF8 FoldAdd(VecF value) {
#if defined(__AVX512F__)
  return __builtin_shufflevector(value, value, 0, 1, 2, 3, 4, 5, 6, 7) +
         __builtin_shufflevector(value, value, 8, 9, 10, 11, 12, 13, 14, 15);
#else
  return value;
#endif
}

// Sum of the lanes, in a fixed order.
LAMINA_INLINE float ReduceAdd(VecF value) {
  VecF8 sum = FoldAdd(value);
  sum += __builtin_shuffle(sum, VecI8{4, 5, 6, 7, 0, 1, 2, 3});
  sum += __builtin_shuffle(sum, VecI8{2, 3, 0, 1, 6, 7, 4, 5});
  return sum[0] + sum[1];
}
LAMINA_INLINE float ReduceMax(VecF value) {
  float lanes[kLanes];
  Store(lanes, value);
  float max = lanes[0];
  for (int i = 1; i < kLanes; ++i) max = lanes[i] > max ? lanes[i] : max;
  return max;
}

}  // namespace
}  // namespace lamina
