// A product that is rounded before anything is added to it. Where results must agree with those of kernels
// that multiply and add in two steps, the compiler must not contract the two to a fused multiply-add.
#pragma once

#include "providers/cpu/simd/vec_inl.h"

namespace lamina {
namespace {

LAMINA_INLINE VecF RoundedProduct(VecF a, VecF b) {
#if defined(__clang__)
  const VecF product = a * b;  // clang contracts within one expression only
  return product;
#else
  return __builtin_assoc_barrier(a * b);
#endif
}

}  // namespace
}  // namespace lamina
