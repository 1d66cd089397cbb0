// The inner kernels of fp32 matrix products, one table for each instruction set.
#pragma once

#include <cstdint>

#include "lamina/types.h"
#include "providers/cpu/simd/cpu_isa.h"

namespace lamina {

// C [rows, panel_columns] = A [rows, k] B [k, panel_columns], or += where `accumulate`. Leading dimensions in
// elements. B holds float, float16 or bfloat16 by the function it is passed to.
struct GemmBlock {
  int64_t rows = 0;
  int64_t k = 0;
  const float* a = nullptr;  // [rows, k]; for multiply_transposed [k, rows]
  int64_t lda = 0;
  const void* b = nullptr;
  int64_t ldb = 0;
  float* c = nullptr;
  int64_t ldc = 0;
  bool accumulate = false;
};

struct GemmKernels {
  int panel_columns;  // at most kMaxGemmPanelColumns
  int tile_rows;      // rows computed together: B is read once for each group of this many
  void (*multiply_float)(const GemmBlock& block);
  void (*multiply_half)(const GemmBlock& block);
  void (*multiply_bfloat16)(const GemmBlock& block);
  void (*multiply_transposed)(const GemmBlock& block);  // A lies as its transpose; B of float

  void Multiply(DataType b_type, const GemmBlock& block) const {
    if (b_type == DataType::kFloat) return multiply_float(block);
    return b_type == DataType::kFloat16 ? multiply_half(block) : multiply_bfloat16(block);
  }
};

inline constexpr int kMaxGemmPanelColumns = 32;

// REQUIRES: a member of SupportedIsas().
const GemmKernels& GemmKernelsFor(CpuIsa isa);

}  // namespace lamina
