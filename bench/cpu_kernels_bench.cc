// The hot CPU kernels. Every decode benchmark prints the GB/s of weights (or KV cache) that it reads beside
// what a plain read loop over memory reaches in the same run with the same threads (read_share: 1.0 is the
// machine's bound). Prefill benchmarks print GFLOP/s.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "base/os.h"
#include "base/thread_pool.h"
#include "providers/cpu/attention/attention.h"
#include "providers/cpu/attention/kv_address.h"
#include "providers/cpu/gemm/packed_matrix.h"
#include "providers/cpu/nbits/nbits_matrix.h"

namespace lamina {
namespace {

// More than any last-level cache of the machines this is meant for.
constexpr int64_t kColdBytes = int64_t{256} << 20;

std::vector<float> RandomFloats(int64_t count) {
  std::mt19937 generator(1);
  std::vector<float> numbers(static_cast<size_t>(count));
  for (float& number : numbers) number = static_cast<float>(generator() / 4294967296.0) - 0.5f;
  return numbers;
}

// Bytes read a second by all threads of the pool from memory that no cache holds.
double ReadBandwidth(ThreadPool& pool) {
  static const std::vector<uint64_t> memory(static_cast<size_t>(kColdBytes) / sizeof(uint64_t), 1);
  double best = 0;
  for (int repetition = 0; repetition < 5; ++repetition) {
    const auto start = std::chrono::steady_clock::now();
    constexpr int64_t kGrain = 1 << 15;
    pool.ParallelFor(static_cast<int64_t>(memory.size()), kGrain, [](int64_t begin, int64_t end, int) {
      uint64_t sums[8] = {};
      for (int64_t i = begin; i < end; i += 8) {
        for (int j = 0; j < 8; ++j) sums[j] += memory[static_cast<size_t>(i + j)];
      }
      benchmark::DoNotOptimize(sums);
    });
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, static_cast<double>(kColdBytes) / seconds.count());
  }
  return best;
}

void ReportBytes(benchmark::State& state, ThreadPool& pool, int64_t bytes) {
  state.counters["GB/s"] =
      benchmark::Counter(static_cast<double>(bytes) / 1e9, benchmark::Counter::kIsIterationInvariantRate);
  const double bound = ReadBandwidth(pool);
  state.counters["read_GB/s"] = bound / 1e9;
  state.counters["read_share"] =
      benchmark::Counter(static_cast<double>(bytes) / bound, benchmark::Counter::kIsIterationInvariantRate);
}

void ReportFlops(benchmark::State& state, int64_t m, int64_t n, int64_t k) {
  state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * static_cast<double>(m * n * k),
                                                 benchmark::Counter::kIsIterationInvariantRate);
}

// Args: bits, block size, accuracy level, rows, n, k. Weights of several matrices are used in turn, so that
// none is in a cache when its turn comes; with few bytes they stay in the caches.
void BM_MatMulNBits(benchmark::State& state) {
  NBitsFormat format;
  format.bits = static_cast<int>(state.range(0));
  format.block_size = state.range(1);
  const bool int8 = state.range(2) == 4;
  const int64_t rows = state.range(3);
  format.n = state.range(4);
  format.k = state.range(5);
  ThreadPool pool(AvailableCores());
  const ThreadPool::KeepAwake awake(pool);
  const NBitsMatrix matrix(ActiveIsa(), format, int8);
  const int64_t bytes = matrix.format().packed_bytes();
  const int64_t copies = rows > 1 || bytes < (1 << 20) ? 1 : std::max<int64_t>(1, kColdBytes / bytes);
  std::vector<char> packed(static_cast<size_t>(copies * bytes), 0x11);
  const std::vector<float> x = RandomFloats(rows * format.k);
  std::vector<float> y(static_cast<size_t>(rows * format.n));
  std::vector<char> workspace(matrix.WorkspaceBytes(DataType::kFloat, rows));
  int64_t turn = 0;
  for (auto _ : state) {
    matrix.Multiply(pool, DataType::kFloat, x.data(), format.k, rows, packed.data() + turn * bytes,
                    workspace.data(), [&](int64_t row, int64_t column, int64_t count, const float* values) {
                      std::memcpy(y.data() + row * format.n + column, values, static_cast<size_t>(count) * 4);
                    });
    turn = (turn + 1) % copies;
  }
  if (rows == 1) ReportBytes(state, pool, bytes);
  ReportFlops(state, rows, format.n, format.k);
}
BENCHMARK(BM_MatMulNBits)
    ->ArgNames({"bits", "block", "level", "rows", "n", "k"})
    ->ArgsProduct({{4}, {32, 128}, {0, 4}, {1}, {4096}, {4096}})
    ->ArgsProduct({{2, 8}, {32}, {0, 4}, {1}, {4096}, {4096}})
    ->ArgsProduct({{4}, {32}, {0, 4}, {1}, {384, 1024, 4096}, {384}})
    ->ArgsProduct({{4}, {32}, {0, 4}, {4, 128}, {4096}, {4096}})
    ->UseRealTime();

// Args: element bytes (4 float, 2 float16), rows, n, k.
void BM_MatMul(benchmark::State& state) {
  const DataType type = state.range(0) == 4 ? DataType::kFloat : DataType::kFloat16;
  const int64_t rows = state.range(1), n = state.range(2), k = state.range(3);
  ThreadPool pool(AvailableCores());
  const ThreadPool::KeepAwake awake(pool);
  const GemmKernels& kernels = GemmKernelsFor(ActiveIsa());
  const auto bytes = static_cast<int64_t>(PackedMatrixBytes(type, k, n));
  const int64_t copies = rows > 1 ? 1 : std::max<int64_t>(1, kColdBytes / bytes);
  std::vector<char> packed(static_cast<size_t>(copies * bytes), 0);
  const std::vector<float> x = RandomFloats(rows * k);
  std::vector<float> y(static_cast<size_t>(rows * n));
  int64_t turn = 0;
  for (auto _ : state) {
    RunGemm(
        pool, kernels, {1, rows, n, k}, [&](int64_t) { return x.data(); }, k,
        [&](const GemmPanelRequest& request) {
          return PackedPanel(kernels, type, packed.data() + turn * bytes, k, request);
        },
        [&](int64_t, int64_t row, int64_t column, int64_t count, const float* values) {
          std::memcpy(y.data() + row * n + column, values, static_cast<size_t>(count) * 4);
        });
    turn = (turn + 1) % copies;
  }
  if (rows == 1) ReportBytes(state, pool, bytes);
  ReportFlops(state, rows, n, k);
}
BENCHMARK(BM_MatMul)
    ->ArgNames({"bytes", "rows", "n", "k"})
    ->ArgsProduct({{2, 4}, {1, 4, 128}, {4096}, {4096}})
    ->UseRealTime();

// Args: element bytes, queries, keys, heads, kv heads, head size; causal.
void BM_Attention(benchmark::State& state) {
  const DataType type = state.range(0) == 4 ? DataType::kFloat : DataType::kFloat16;
  const int64_t element_bytes = state.range(0);
  const int64_t q_tokens = state.range(1), keys = state.range(2), heads = state.range(3),
                kv_heads = state.range(4), size = state.range(5);
  ThreadPool pool(AvailableCores());
  const ThreadPool::KeepAwake awake(pool);
  const int64_t plane_bytes = kv_heads * keys * size * element_bytes;
  const int64_t copies =
      q_tokens > 1 || plane_bytes < (1 << 19) ? 1 : std::max<int64_t>(1, kColdBytes / (2 * plane_bytes));
  std::vector<char> cache(static_cast<size_t>(copies * 2 * plane_bytes), 0);
  std::vector<char> query(static_cast<size_t>(q_tokens * heads * size * element_bytes), 0);
  std::vector<char> output(query.size());
  AttentionLimits limits{1, q_tokens, heads, kv_heads, size, size, pool.num_threads()};
  std::vector<char> memory(AttentionWorkspaceBytes(limits) + 64);
  void* workspace = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
  *static_cast<AttentionSequence*>(workspace) = {0, q_tokens, keys, keys - q_tokens};
  AttentionParams params;
  params.type = type;
  params.query = query.data();
  params.output = output.data();
  params.q_token_stride = params.out_token_stride = heads * size;
  params.q_head_stride = params.out_head_stride = size;
  params.heads = heads;
  params.scale = 0.1f;
  params.window_right = 0;
  params.sequences = static_cast<AttentionSequence*>(workspace);
  params.batch = 1;
  int64_t turn = 0;
  for (auto _ : state) {
    char* base = cache.data() + turn * 2 * plane_bytes;
    params.kv =
        ContiguousKv(PlaneOfHeads(base, type, kv_heads, keys, size),
                     PlaneOfHeads(base + plane_bytes, type, kv_heads, keys, size), type, kv_heads, keys);
    RunAttention(pool, ActiveIsa(), params, limits, workspace);
    turn = (turn + 1) % copies;
  }
  if (q_tokens == 1) ReportBytes(state, pool, 2 * plane_bytes);
  // Scores and values over the causal half of the square, and the past.
  const int64_t pairs = q_tokens * (keys - q_tokens) + q_tokens * (q_tokens + 1) / 2;
  ReportFlops(state, heads * pairs, 2, size);
}
BENCHMARK(BM_Attention)
    ->ArgNames({"bytes", "queries", "keys", "heads", "kv", "size"})
    ->Args({4, 1, 128, 6, 2, 64})
    ->Args({4, 1, 4096, 32, 8, 128})
    ->Args({2, 1, 4096, 32, 8, 128})
    ->Args({4, 512, 512, 32, 8, 128})
    ->Args({2, 512, 512, 32, 8, 128})
    ->UseRealTime();

}  // namespace
}  // namespace lamina

BENCHMARK_MAIN();
