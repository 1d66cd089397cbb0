#include "runtime/memory_bandwidth.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/thread_pool.h"

namespace lamina {

double MeasureReadBandwidth(ThreadPool& threads) {
  constexpr int64_t kBufferBytes = int64_t{256} << 20;
  constexpr int64_t kChunkBytes = int64_t{1} << 20;
  constexpr int kPasses = 5;
  const std::unique_ptr<void, void (*)(void*)> buffer(std::aligned_alloc(4096, kBufferBytes), std::free);
  if (!buffer) return 0;
  const auto* words = static_cast<const uint64_t*>(buffer.get());
  threads.ParallelFor(kBufferBytes, kChunkBytes, [&](int64_t begin, int64_t end, int) {
    std::memset(static_cast<char*>(buffer.get()) + begin, 1, static_cast<size_t>(end - begin));
  });
  std::atomic<uint64_t> sink{0};
  double best_bytes_per_s = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    threads.ParallelFor(kBufferBytes, kChunkBytes, [&](int64_t begin, int64_t end, int) {
      // Eight sums, so that the loads and not one chain of additions set the pace.
      uint64_t sums[8] = {};
      for (int64_t i = begin / 8; i < end / 8; i += 8) {
        for (int lane = 0; lane < 8; ++lane) sums[lane] += words[i + lane];
      }
      uint64_t sum = 0;
      for (const uint64_t lane : sums) sum += lane;
      sink.fetch_add(sum, std::memory_order_relaxed);
    });
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    best_bytes_per_s = std::max(best_bytes_per_s, static_cast<double>(kBufferBytes) / elapsed.count());
  }
  return sink.load() == 0 ? 0 : best_bytes_per_s;
}

}  // namespace lamina
