#include "providers/cpu/gemm/gemm.h"

#include <algorithm>

namespace lamina {
namespace {

constexpr int64_t kBlockRows = 96;  // a multiple of every kernel's tile_rows; A's block of 256 k is 96 KiB

// Rates of one core, for the size of chunks only.
constexpr double kFlopPerNs = 60;
constexpr double kBytesPerNs = 15;
constexpr double kChunkNs = 3000;
constexpr double kForkNs = 2000;  // a loop this short is not split

// Chunks of a thread: one in a short loop, where they would only cost, several in a long one, so that a
// thread that the system holds up does not hold up the others.
constexpr double kLongChunkNs = 20000;
constexpr double kMaxChunksOfThread = 8;

}  // namespace

int64_t GrainFor(double item_ns) {
  return std::max<int64_t>(1, static_cast<int64_t>(kChunkNs / std::max(item_ns, 1.0)));
}

int64_t BalancedGrain(const ThreadPool& threads, int64_t count, double item_ns) {
  const double total_ns = static_cast<double>(count) * item_ns;
  const int num_threads = threads.num_threads();
  if (total_ns < kForkNs || num_threads == 1) return std::max<int64_t>(1, count);
  const double chunks_of_thread =
      std::clamp(total_ns / (num_threads * kLongChunkNs), 1.0, kMaxChunksOfThread);
  const int64_t chunks = num_threads * static_cast<int64_t>(chunks_of_thread);
  return std::max<int64_t>(1, (count + chunks - 1) / chunks);
}

void RunGemm(ThreadPool& threads, const GemmKernels& kernels, const GemmShape& shape, GemmRowsOfA a,
             int64_t lda, GemmPanelOfB b, GemmStore store) {
  const int64_t columns = kernels.panel_columns;
  const int64_t panels = (shape.n + columns - 1) / columns;
  const int64_t row_blocks = (shape.m + kBlockRows - 1) / kBlockRows;
  const int64_t tasks = shape.batch * panels * row_blocks;
  const double macs = static_cast<double>(std::min(shape.m, kBlockRows) * columns * shape.k);
  const double weight_bytes = static_cast<double>(columns * shape.k) * sizeof(float);
  const double task_ns = std::max(2 * macs / kFlopPerNs, weight_bytes / kBytesPerNs);

  threads.ParallelFor(tasks, BalancedGrain(threads, tasks, task_ns), [&](int64_t begin, int64_t end, int) {
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
