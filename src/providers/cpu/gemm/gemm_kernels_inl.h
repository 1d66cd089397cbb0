// The micro-kernel: a tile of C, two vectors wide, stays in registers while A's elements are broadcast
// against rows of B. 6 x 16 on AVX2 and 12 x 32 on AVX-512 use all registers but the few that hold A and B.
#pragma once

#include "providers/cpu/gemm/gemm_kernels.h"
#include "providers/cpu/simd/vec_inl.h"

namespace lamina {
namespace {

#if defined(__AVX512F__)
inline constexpr int kTileRows = 12;
#elif defined(__AVX2__)
inline constexpr int kTileRows = 6;
#else
inline constexpr int kTileRows = 3;
#endif
inline constexpr int kPanelColumns = 2 * kLanes;

template <int kRows, typename TB, bool kTransposedA>
inline void MultiplyRows(const GemmBlock& block, int64_t first_row) {
  // Few rows are few independent chains of additions: several steps of k at once hide their latency.
  constexpr int kUnroll = kRows == 1 ? 4 : (kRows <= 3 ? 2 : 1);
  const int64_t k = block.k, lda = block.lda, ldb = block.ldb;
  const float* a = block.a + (kTransposedA ? first_row : first_row * lda);
  const auto element = [a, lda](int64_t r, int64_t step) {
    return kTransposedA ? a[step * lda + r] : a[r * lda + step];
  };
  const TB* b = static_cast<const TB*>(block.b);
  VecF sum[kUnroll][kRows][2] = {};
  int64_t i = 0;
  for (; i + kUnroll <= k; i += kUnroll) {
#pragma GCC unroll 4
    for (int u = 0; u < kUnroll; ++u) {
      const VecF b0 = Load(b + (i + u) * ldb);
      const VecF b1 = Load(b + (i + u) * ldb + kLanes);
#pragma GCC unroll 12
      for (int r = 0; r < kRows; ++r) {
        const VecF x = Set1(element(r, i + u));
        sum[u][r][0] += x * b0;
        sum[u][r][1] += x * b1;
      }
    }
  }
  for (; i < k; ++i) {
    const VecF b0 = Load(b + i * ldb);
    const VecF b1 = Load(b + i * ldb + kLanes);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const VecF x = Set1(element(r, i));
      sum[0][r][0] += x * b0;
      sum[0][r][1] += x * b1;
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      VecF total = sum[0][r][half];
      for (int u = 1; u < kUnroll; ++u) total += sum[u][r][half];
      float* target = block.c + (first_row + r) * block.ldc + half * kLanes;
      if (block.accumulate) total += Load(target);
      Store(target, total);
    }
  }
}

// `rows` < kTileRows + 1 rows from first_row on.
template <int kRows, typename TB, bool kTransposedA>
inline void MultiplyRemainder(const GemmBlock& block, int64_t first_row, int64_t rows) {
  if constexpr (kRows > 0) {
    if (rows == kRows) return MultiplyRows<kRows, TB, kTransposedA>(block, first_row);
    MultiplyRemainder<kRows - 1, TB, kTransposedA>(block, first_row, rows);
  }
}

template <typename TB, bool kTransposedA = false>
void Multiply(const GemmBlock& block) {
  int64_t row = 0;
  for (; row + kTileRows <= block.rows; row += kTileRows)
    MultiplyRows<kTileRows, TB, kTransposedA>(block, row);
  MultiplyRemainder<kTileRows - 1, TB, kTransposedA>(block, row, block.rows - row);
}

inline constexpr GemmKernels kGemmKernels = {kPanelColumns,     kTileRows,          Multiply<float>,
                                             Multiply<Float16>, Multiply<Bfloat16>, Multiply<float, true>};

}  // namespace
}  // namespace lamina
