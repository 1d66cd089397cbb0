// Transcendental functions and conversions over arrays of floats, vectorised for the machine at hand.
//
//   const VecMath& math = ActiveVecMath();
//   math.gelu_tanh(x, y, count);
//
// `output` may be `input`. Serial: callers split long arrays over their threads; an element's result does not
// depend on where it lies in the array. Within 4 ULP of the exact value; NaN in, NaN out.
#pragma once

#include <cstdint>

#include "base/half.h"
#include "lamina/types.h"
#include "providers/cpu/simd/cpu_isa.h"

namespace lamina {

class ThreadPool;

struct VecMath {
  using Unary = void (*)(const float* input, float* output, int64_t count);
  Unary exp;
  Unary tanh;
  Unary erf;
  Unary sigmoid;
  Unary silu;       // x sigmoid(x)
  Unary gelu_erf;   // x / 2 (1 + erf(x / sqrt 2))
  Unary gelu_tanh;  // the tanh approximation of it
  void (*quick_gelu)(const float* input, float* output, int64_t count, float alpha);  // x sigmoid(alpha x)

  void (*half_to_float)(const Float16* input, float* output, int64_t count);
  void (*bfloat16_to_float)(const Bfloat16* input, float* output, int64_t count);
  void (*float_to_half)(const float* input, Float16* output, int64_t count);  // to nearest even
  void (*float_to_bfloat16)(const float* input, Bfloat16* output, int64_t count);
};

// REQUIRES: a member of SupportedIsas().
const VecMath& VecMathFor(CpuIsa isa);
const VecMath& ActiveVecMath();

// `count` elements of type float, float16 or bfloat16 from or to floats. REQUIRES: one of these types.
void ConvertToFloat(DataType type, const void* input, float* output, int64_t count);
void ConvertFromFloat(DataType type, const float* input, void* output, int64_t count);
// The same, split over threads.
void ConvertToFloat(ThreadPool& threads, DataType type, const void* input, float* output, int64_t count);

}  // namespace lamina
