// Fork-join latency of the thread pool: the time of a loop whose chunks do nothing, by number of threads,
// alone and beside busy processes. p50 and p99 are of single loops in nanoseconds.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/os.h"
#include "base/thread_pool.h"

namespace lamina {
namespace {

constexpr int64_t kChunkNs = 5000;

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void ForkJoin(benchmark::State& state, int busy_threads) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  std::atomic<bool> stop{false};
  std::vector<std::thread> busy;
  for (int i = 0; i < busy_threads; ++i) {
    busy.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) {
      }
    });
  }
  std::vector<int64_t> loops_ns;
  for (auto _ : state) {
    const int64_t start = NowNs();
    pool.ParallelFor(pool.num_threads(), 1, [](int64_t, int64_t, int) {
      const int64_t end_ns = NowNs() + kChunkNs;
      while (NowNs() < end_ns) {
      }
    });
    loops_ns.push_back(NowNs() - start - kChunkNs);
  }
  stop = true;
  for (std::thread& thread : busy) thread.join();
  std::sort(loops_ns.begin(), loops_ns.end());
  state.counters["p50_overhead_ns"] = static_cast<double>(loops_ns[loops_ns.size() / 2]);
  state.counters["p99_overhead_ns"] = static_cast<double>(loops_ns[loops_ns.size() * 99 / 100]);
}

void Threads(benchmark::internal::Benchmark* bench) {
  const int cores = AvailableCores();
  for (int threads = 1; threads < 2 * cores; threads *= 2) bench->Arg(threads);
  bench->Arg(2 * cores);  // oversubscribed
  bench->UseRealTime();
}

void BM_ForkJoin(benchmark::State& state) { ForkJoin(state, 0); }
void BM_ForkJoinBesideOneBusyThread(benchmark::State& state) { ForkJoin(state, 1); }
BENCHMARK(BM_ForkJoin)->Apply(Threads);
BENCHMARK(BM_ForkJoinBesideOneBusyThread)->Apply(Threads);

}  // namespace
}  // namespace lamina

BENCHMARK_MAIN();
