// Attention of a run's queries over the cache.
//
// A block takes a query token and the query heads that share one key head, up to kHeads of them, and a run of
// keys. It goes through the keys in tiles: the scores of a tile, 8 lanes a key; the running maximum and sum
// of each head; the values, 16 bytes a thread. With several splits each leaves its unnormalised output,
// maximum and sum in the workspace, and a second kernel merges them in order. The cost follows the valid
// length: a split without keys ends at once.
#include "providers/cuda/device/attention.cuh"
#include "providers/cuda/device/kernel_families.cuh"
#include "providers/cuda/device/platform.cuh"

namespace lamina::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarp;
constexpr int kTile = 64;          // keys
constexpr int kLanesOfKey = 8;     // that share a key's channels
constexpr int kWidth = 8;          // channels a thread moves at once
constexpr int kMaxHeadSize = 256;  // a multiple of kWidth

template <typename T, int kHeads>
__global__ void __launch_bounds__(kThreads) Attend(AttentionArguments arguments) {
  __shared__ float queries[kHeads][kMaxHeadSize];
  __shared__ float scores[kHeads][kTile];
  __shared__ float partial_sums[kHeads][kThreads * kWidth];  // [key of a step][channel], flat
  __shared__ float maxima[kHeads];
  __shared__ float sums[kHeads];
  __shared__ float corrections[kHeads];
  AllowNext();
  AwaitPrevious();
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / kWarp;
  const int lane = thread % kWarp;
  const int group = arguments.heads / arguments.kv_heads;
  const int chunks = CeilDiv(group, kHeads);
  const int split = static_cast<int>(blockIdx.x);
  const int kv_head = static_cast<int>(blockIdx.y) / chunks;
  const int first_head = kv_head * group + static_cast<int>(blockIdx.y) % chunks * kHeads;
  const int heads = Smaller(kHeads, (kv_head + 1) * group - first_head);
  const int b = static_cast<int>(blockIdx.z) / arguments.sequence;
  const int s = static_cast<int>(blockIdx.z) % arguments.sequence;

  const int position = PastTokens(arguments.lengths, b, arguments.sequence) + s;
  const int tokens =
      Smaller(KeyTokens(arguments.lengths, b, arguments.sequence), arguments.cache.capacity_tokens);
  const KeyRange visible = VisibleKeys(arguments, position, tokens);
  // Whole tiles for each split.
  const int tiles = CeilDiv(visible.end - visible.begin, kTile);
  const int tiles_of_split = CeilDiv(tiles, arguments.splits);
  const int begin = Smaller(visible.end, visible.begin + split * tiles_of_split * kTile);
  const int end = Smaller(visible.end, begin + tiles_of_split * kTile);

  const int head_size = arguments.head_size;
  const int value_size = arguments.value_head_size;
  for (int i = thread; i < heads * head_size; i += kThreads) {
    const int h = i / head_size;
    const T* query = static_cast<const T*>(arguments.query) + b * arguments.query_strides.batch +
                     s * arguments.query_strides.token + (first_head + h) * arguments.query_strides.head;
    queries[h][i % head_size] = ToFloat(query[i % head_size]);
  }
  if (thread < kHeads) {
    maxima[thread] = -INFINITY;
    sums[thread] = 0;
  }
  // This thread's channels of the values, for the keys key_of_step, + keys_of_step, ...
  const int packs = value_size / kWidth;
  const int keys_of_step = kThreads / packs;
  const int key_of_step = thread / packs;
  const int channel = thread % packs * kWidth;
  float outputs[kHeads][kWidth] = {};
  __syncthreads();

  for (int tile = begin; tile < end; tile += kTile) {
    const int keys = Smaller(kTile, end - tile);
    // Every lane takes part in the exchanges; keys that are not there get no weight.
    for (int first = warp * (kWarp / kLanesOfKey); first < kTile; first += kWarps * (kWarp / kLanesOfKey)) {
      const int key = first + lane / kLanesOfKey;
      float products[kHeads] = {};
      if (key < keys) {
        const T* row = reinterpret_cast<const T*>(
            TokenAddress(arguments.cache, arguments.cache.key, b, kv_head, tile + key));
        for (int i = lane % kLanesOfKey * kWidth; i < head_size; i += kLanesOfKey * kWidth) {
          const Pack<T, kWidth> values = LoadPack<kWidth>(row + i);
#pragma unroll
          for (int j = 0; j < kWidth; ++j) {
            const float value = ToFloat(values.values[j]);
#pragma unroll
            for (int h = 0; h < kHeads; ++h) products[h] += value * queries[h][i + j];
          }
        }
      }
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
#pragma unroll
        for (int offset = kLanesOfKey / 2; offset > 0; offset /= 2) {
          products[h] += __shfl_xor_sync(kFullMask, products[h], offset);
        }
        if (lane % kLanesOfKey == 0) {
          scores[h][key] = key < keys && h < heads
                               ? FinishScore(arguments, products[h], b, first_head + h, s, tile + key)
                               : -INFINITY;
        }
      }
    }
    __syncthreads();
    for (int h = warp; h < kHeads; h += kWarps) {
      const float first = scores[h][lane];
      const float second = scores[h][lane + kWarp];
      const float max = fmaxf(maxima[h], WarpMax(fmaxf(first, second)));
      const float first_weight = Weight(first, max);
      const float second_weight = Weight(second, max);
      scores[h][lane] = first_weight;
      scores[h][lane + kWarp] = second_weight;
      const float sum = WarpSum(first_weight + second_weight);
      __syncwarp();  // every lane has read the maximum
      if (lane == 0) {
        corrections[h] = Weight(maxima[h], max);
        sums[h] = sums[h] * corrections[h] + sum;
        maxima[h] = max;
      }
    }
    __syncthreads();
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      const float correction = corrections[h];
#pragma unroll
      for (int j = 0; j < kWidth; ++j) outputs[h][j] *= correction;
    }
    if (key_of_step < keys_of_step) {
      for (int key = key_of_step; key < keys; key += keys_of_step) {
        const T* row = reinterpret_cast<const T*>(
            TokenAddress(arguments.cache, arguments.cache.value, b, kv_head, tile + key));
        const Pack<T, kWidth> values = LoadPack<kWidth>(row + channel);
#pragma unroll
        for (int j = 0; j < kWidth; ++j) {
          const float value = ToFloat(values.values[j]);
#pragma unroll
          for (int h = 0; h < kHeads; ++h) outputs[h][j] += scores[h][key] * value;
        }
      }
    }
    __syncthreads();  // the next tile writes scores
  }

  if (key_of_step < keys_of_step) {
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        partial_sums[h][key_of_step * value_size + channel + j] = outputs[h][j];
      }
    }
  }
  __syncthreads();
  for (int i = thread; i < heads * value_size; i += kThreads) {
    const int h = i / value_size;
    const int d = i % value_size;
    float output = 0;
    for (int step = 0; step < keys_of_step; ++step) output += partial_sums[h][step * value_size + d];
    if (arguments.splits == 1) {
      const float sink = SinkOf<T>(arguments, first_head + h);
      const float max = fmaxf(maxima[h], sink);
      const float correction = Weight(maxima[h], max);
      const float sum = sums[h] * correction + Weight(sink, max);
      const float result = sum > 0.0f ? output * correction / sum : 0.0f;
      OutputOf<T>(arguments, b, s, first_head + h)[d] = FromFloat<T>(result);
    } else {
      const int64_t item =
          (int64_t{blockIdx.z} * arguments.heads + first_head + h) * arguments.splits + split;
      float* place = arguments.workspace + item * (value_size + 2);
      place[d] = output;
      if (d == 0) {
        place[value_size] = maxima[h];
        place[value_size + 1] = sums[h];
      }
    }
  }
}

// A block for each query token and head. A lane of each warp looks after a split.
template <typename T>
__global__ void MergeSplits(AttentionArguments arguments) {
  __shared__ float weights[kWarp];
  AllowNext();
  AwaitPrevious();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int head = static_cast<int>(blockIdx.x) % arguments.heads;
  const int64_t token = blockIdx.x / arguments.heads;
  const int b = static_cast<int>(token / arguments.sequence);
  const int s = static_cast<int>(token % arguments.sequence);
  const int value_size = arguments.value_head_size;
  const int stride = value_size + 2;
  const float* places = arguments.workspace + int64_t{blockIdx.x} * arguments.splits * stride;
  const bool has_split = lane < arguments.splits;
  const float own_max = has_split ? places[lane * stride + value_size] : -INFINITY;
  const float own_sum = has_split ? places[lane * stride + value_size + 1] : 0.0f;
  const float sink = SinkOf<T>(arguments, head);
  const float max = fmaxf(sink, WarpMax(own_max));
  const float weight = Weight(own_max, max);
  const float sum = Weight(sink, max) + WarpSum(own_sum * weight);
  if (threadIdx.x < kWarp) weights[lane] = weight;
  __syncthreads();
  for (int d = static_cast<int>(threadIdx.x); d < value_size; d += static_cast<int>(blockDim.x)) {
    float output = 0;
    for (int split = 0; split < arguments.splits; ++split) {
      if (weights[split] > 0.0f) output += places[split * stride + d] * weights[split];  // else it is empty
    }
    OutputOf<T>(arguments, b, s, head)[d] = FromFloat<T>(sum > 0.0f ? output / sum : 0.0f);
  }
}

template <typename T, int kHeads>
int LaunchHeads(const LaunchTarget& target, const AttentionArguments& arguments) {
  const int chunks = CeilDiv(arguments.heads / arguments.kv_heads, kHeads);
  const int64_t tokens = int64_t{arguments.batch} * arguments.sequence;
  constexpr int64_t kMaxTokens = 65535;
  if (tokens > kMaxTokens) return kErrorNotSupported;
  const dim3 grid(static_cast<unsigned>(arguments.splits), static_cast<unsigned>(arguments.kv_heads * chunks),
                  static_cast<unsigned>(tokens));
  const int error = LaunchOverlapped(target, Attend<T, kHeads>, grid, kThreads, 0, arguments);
  return error != 0 || arguments.splits == 1 ? error : LaunchMergeSplits(target, arguments);
}

}  // namespace

int LaunchMergeSplits(const LaunchTarget& target, const AttentionArguments& arguments) {
  const int64_t tokens = int64_t{arguments.batch} * arguments.sequence;
  const dim3 grid(static_cast<unsigned>(tokens * arguments.heads));
  return DispatchFloat(arguments.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return LaunchOverlapped(target, MergeSplits<T>, grid, kThreads, 0, arguments);
  });
}

int LaunchAttention(const LaunchTarget& target, const AttentionArguments& arguments) {
  if (arguments.splits < 1 || arguments.splits > kWarp) return kErrorNotSupported;
  const auto fits = [](int size) { return size > 0 && size <= kMaxHeadSize && size % kWidth == 0; };
  if (!fits(arguments.head_size) || !fits(arguments.value_head_size)) return kErrorNotSupported;
  if (arguments.batch == 0 || arguments.sequence == 0) return 0;
  if (TilesServe(target, arguments)) return LaunchAttentionTiles(target, arguments);
  return DispatchFloat(arguments.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int group = arguments.heads / arguments.kv_heads;
    if (group == 1) return LaunchHeads<T, 1>(target, arguments);
    return LaunchHeads<T, 4>(target, arguments);
  });
}

}  // namespace lamina::cuda
