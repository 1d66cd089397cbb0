// Kernels over one contiguous row: normalisations, softmax and rotary embedding, one table for each
// instruction set. Elements are float, float16 or bfloat16 and computed in fp32. Serial; adapters split rows
// over their threads. Outputs may overwrite the input of the same index.
#pragma once

#include <cstdint>

#include "lamina/types.h"
#include "providers/cpu/simd/cpu_isa.h"

namespace lamina {

// y = (v - mean) / sqrt(variance + epsilon) * scale + shift with v = x + skip + bias, over `count` elements.
// RMS normalisation (rms): y = v / sqrt(mean(v^2) + epsilon) * scale. Null pointers are left out.
struct NormalizeRow {
  int64_t count = 0;
  const void* x = nullptr;
  const void* skip = nullptr;
  const void* bias = nullptr;
  const void* scale = nullptr;  // of x's type, or of float (normalize_float_scale)
  const void* shift = nullptr;  // of the scale's type
  void* y = nullptr;
  void* sum = nullptr;  // receives v; must not be x or skip
  float epsilon = 0;
  bool rms = false;
  bool round_before_scale = false;  // the normalised value is rounded to x's type before it is scaled
  float mean = 0;                   // results
  float inverse_deviation = 0;
};

// Rotates pairs of the first 2 * pairs channels of a head of `head_size`; the others are copied. Pairs are
// (i, i + pairs), or (2 i, 2 i + 1) where interleaved.
struct RotateHead {
  const void* x = nullptr;
  void* y = nullptr;
  const void* cos = nullptr;  // [pairs]
  const void* sin = nullptr;
  int64_t head_size = 0;
  int64_t pairs = 0;
  bool interleaved = false;
};

struct RowKernels {
  struct OfType {
    void (*normalize)(NormalizeRow& row);
    void (*normalize_float_scale)(NormalizeRow& row);
    // exp(x - max) / sum, or its logarithm. A row of -inf gives NaN.
    void (*softmax)(const void* x, void* y, int64_t count, bool logarithm);
    // The same along the first axis of [count, columns], for columns [first, last).
    void (*softmax_columns)(const void* x, void* y, int64_t count, int64_t columns, int64_t first,
                            int64_t last, bool logarithm);
    void (*rotate)(const RotateHead& head);
  };
  OfType of_float;
  OfType of_half;
  OfType of_bfloat16;

  // REQUIRES: float, float16 or bfloat16.
  const OfType& For(DataType type) const {
    if (type == DataType::kFloat) return of_float;
    return type == DataType::kFloat16 ? of_half : of_bfloat16;
  }
};

// REQUIRES: a member of SupportedIsas().
const RowKernels& RowKernelsFor(CpuIsa isa);

}  // namespace lamina
