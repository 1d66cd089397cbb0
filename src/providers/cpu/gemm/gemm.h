// Products of matrices in fp32: C [batch, m, n] = A [batch, m, k] B [batch, k, n].
//
// A is float, row-major. B comes panel by panel from its owner (packed at load, read in place, packed or
// dequantised on the fly), C goes row segment by row segment to its owner, which adds bias, scales or
// converts. Work is split over panels of columns and blocks of 96 rows; k is summed in blocks of 256 in
// order, so that results do not depend on the threads. Uses no memory but the stack: B's block and C's tile
// (44 KiB at most).
#pragma once

#include <cstdint>

#include "base/function_ref.h"
#include "base/thread_pool.h"
#include "providers/cpu/gemm/gemm_kernels.h"

namespace lamina {

inline constexpr int64_t kGemmBlockK = 256;

struct GemmShape {
  int64_t batch = 1;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
};

// Rows [k_begin, k_begin + k_count) of one panel of B, panel_columns wide; columns past n hold anything that
// is finite.
struct GemmPanel {
  const void* data = nullptr;
  int64_t ld = 0;
  DataType type = DataType::kFloat;
};

// Which part of B is wanted. `buffer` [k_count, panel_columns] is free to hold it; k_count <= kGemmBlockK.
struct GemmPanelRequest {
  int64_t batch = 0;
  int64_t column = 0;  // first one: a multiple of panel_columns
  int64_t k_begin = 0;
  int64_t k_count = 0;
  float* buffer = nullptr;
};

using GemmRowsOfA = FunctionRef<const float*(int64_t batch)>;  // [m, k], leading dimension lda
using GemmPanelOfB = FunctionRef<GemmPanel(const GemmPanelRequest& request)>;
// Takes C[batch, row, column .. column + count).
using GemmStore =
    FunctionRef<void(int64_t batch, int64_t row, int64_t column, int64_t count, const float* values)>;

void RunGemm(ThreadPool& threads, const GemmKernels& kernels, const GemmShape& shape, GemmRowsOfA a,
             int64_t lda, GemmPanelOfB b, GemmStore store);

// Chunk size for loops whose items take about `item_ns` each: what is worth a fork.
int64_t GrainFor(double item_ns);
// Chunk size for a loop over `count` equal items: one chunk where a fork costs more than it saves, else as
// many for each thread, more of them the longer the loop takes. Only for loops whose results do not depend
// on the chunks.
int64_t BalancedGrain(const ThreadPool& threads, int64_t count, double item_ns);

}  // namespace lamina
