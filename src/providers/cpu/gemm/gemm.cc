#include "providers/cpu/gemm/gemm.h"

#include <algorithm>

namespace lamina {
namespace {

constexpr int64_t kBlockRows = 96;  // a multiple of every kernel's tile_rows; A's block of 256 k is 96 KiB

// Rates of one core, for the size of chunks only.
constexpr double kFlopPerNs = 60;
constexpr double kBytesPerNs = 15;
constexpr double kChunkNs = 3000;

}  // namespace

int64_t GrainFor(double item_ns) {
  return std::max<int64_t>(1, static_cast<int64_t>(kChunkNs / std::max(item_ns, 1.0)));
}

void RunGemm(ThreadPool& threads, const GemmKernels& kernels, const GemmShape& shape, GemmRowsOfA a,
             int64_t lda, GemmPanelOfB b, GemmStore store) {
  const int64_t columns = kernels.panel_columns;
  const int64_t panels = (shape.n + columns - 1) / columns;
  const int64_t row_blocks = (shape.m + kBlockRows - 1) / kBlockRows;
  const int64_t tasks = shape.batch * panels * row_blocks;
  const double macs = static_cast<double>(std::min(shape.m, kBlockRows) * columns * shape.k);
  const double weight_bytes = static_cast<double>(columns * shape.k) * sizeof(float);
  const int64_t grain = GrainFor(std::max(2 * macs / kFlopPerNs, weight_bytes / kBytesPerNs));

  threads.ParallelFor(tasks, grain, [&](int64_t begin, int64_t end, int) {
    alignas(64) float tile[kBlockRows * kMaxGemmPanelColumns];
    alignas(64) float buffer[kGemmBlockK * kMaxGemmPanelColumns];
    for (int64_t task = begin; task < end; ++task) {
      // Row blocks of one panel follow each other: its weights are still in the cache.
      const int64_t row = task % row_blocks * kBlockRows;
      const int64_t column = task / row_blocks % panels * columns;
      const int64_t batch = task / row_blocks / panels;
      const int64_t rows = std::min(kBlockRows, shape.m - row);
      GemmBlock block;
      block.rows = rows;
      block.lda = lda;
      block.c = tile;
      block.ldc = columns;
      if (shape.k == 0) std::fill_n(tile, rows * columns, 0.0f);
      for (int64_t k = 0; k < shape.k; k += kGemmBlockK) {
        block.k = std::min(kGemmBlockK, shape.k - k);
        const GemmPanel panel = b({batch, column, k, block.k, buffer});
        block.a = a(batch) + row * lda + k;
        block.b = panel.data;
        block.ldb = panel.ld;
        block.accumulate = k > 0;
        kernels.Multiply(panel.type, block);
      }
      const int64_t count = std::min(columns, shape.n - column);
      for (int64_t r = 0; r < rows; ++r) store(batch, row + r, column, count, tile + r * columns);
    }
  });
}

}  // namespace lamina
