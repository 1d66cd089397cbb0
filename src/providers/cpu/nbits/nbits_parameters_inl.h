// Loads of the scales and zero points of a group (nbits_format.h).
#pragma once

#include "providers/cpu/nbits/nbits_kernels.h"
#include "providers/cpu/simd/vec_inl.h"

namespace lamina {
namespace {

LAMINA_INLINE VecF LoadScales(const NBitsFormat& format, const char* group, int64_t block) {
  if (format.scale_type == DataType::kFloat)
    return Load(reinterpret_cast<const float*>(group) + block * kLanes);
  if (format.scale_type == DataType::kFloat16) {
    return Load(reinterpret_cast<const Float16*>(group) + block * kLanes);
  }
  return Load(reinterpret_cast<const Bfloat16*>(group) + block * kLanes);
}

// kLanes unsigned bytes as integers.
LAMINA_INLINE VecI LoadByteLanes(const char* bytes) {
  typedef uint8_t VecU8 __attribute__((vector_size(kLanes)));
  VecU8 lanes;
  std::memcpy(&lanes, bytes, sizeof lanes);
  return __builtin_convertvector(lanes, VecI);
}

}  // namespace
}  // namespace lamina
