// The inner loops of convolution that are not products of whole panels, one table for each instruction set.
#pragma once

#include <cstdint>

#include "providers/cpu/gemm/gemm_kernels.h"
#include "providers/cpu/simd/cpu_isa.h"

namespace lamina {

// One row of output of one channel: target[x] = bias + sum over lines and taps of
// weights[line * taps + tap] * lines[line][x * stride - pad + tap * dilation], where the index is in the
// line.
struct DepthwiseRow {
  const float* const* lines = nullptr;  // [line_count] of in_width elements; null: in the padding
  int64_t line_count = 0;
  int64_t in_width = 0;
  const float* weights = nullptr;
  int64_t taps = 0;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t pad = 0;
  float bias = 0;
  float* target = nullptr;
  int64_t out_width = 0;
};

struct ConvKernels {
  void (*depthwise_row)(const DepthwiseRow& row);
  // target[i] = values[i] + bias, but no less than `low`. NaN stays NaN.
  void (*store_row)(const float* values, int64_t count, float bias, float low, float* target);
  // The product of a block (b of float) with `narrow_columns` columns, half a panel: for convolutions with
  // few outputs.
  int narrow_columns;
  void (*narrow_product)(const GemmBlock& block);
};

// REQUIRES: a member of SupportedIsas().
const ConvKernels& ConvKernelsFor(CpuIsa isa);

}  // namespace lamina
