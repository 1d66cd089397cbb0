// Attention of a decode step in one kernel: one token of each sequence, its way into the cache included.
//
// A block takes the query heads that share one key head, up to kHeads of them, and a run of keys. It rotates
// its queries, and where the run holds the new token also its key, which goes to the cache. Then the lanes
// that hold a key's channels, 8 each, take a key at a time, with a softmax of their own, and all results are
// merged at the end: of a warp, of the block, and of the blocks of the other runs, which are a cluster.
// Without clusters they leave their results in the workspace for a second kernel.
//
// It serves plain scores, of caches with one block for each sequence: what decoders need, so that it stays
// small enough for the caches of instructions.
//
// Where keys and values are read before the kernel before has ended, they are those of earlier runs.
#include "providers/cuda/device/attention.cuh"
#include "providers/cuda/device/kernel_families.cuh"
#include "providers/cuda/device/platform.cuh"

namespace lamina::cuda {
namespace {

constexpr int kWarps = 16;
constexpr int kThreads = kWarps * kWarp;
constexpr int kWidth = 8;     // channels of one 16-byte access, those of a lane
constexpr int kAhead = 2;     // keys of a lane that are under way at once
constexpr int kMaxHeads = 2;  // of a block: more blocks read the same keys, the second time from the cache

// kSize: the head size rounded up to 64 or 128 channels.
template <typename T, int kSize, int kHeads>
struct StepMemory {
  T vectors[kHeads + 2][kSize];  // the queries; key and value of the new token
  float prepared[kHeads + 1][kSize];
  float outputs[kWarps][kHeads][kSize];  // of a warp; then, in the first, of the block
  float maxima[kWarps][kHeads];
  float sums[kWarps][kHeads];
  float weights[kWarps][kHeads];  // of the warps' results in the block's
  float block_maxima[kHeads];
  float block_sums[kHeads];
};

template <typename T>
struct KeyOfLane {
  Pack<T, kWidth> key;
  Pack<T, kWidth> value;
};

// What a lane has seen.
template <int kHeads>
struct Running {
  float maxima[kHeads];
  float sums[kHeads];
  float outputs[kHeads][kWidth];
};

// kCluster: the blocks of all runs of keys are a cluster.
template <typename T, int kSize, int kHeads, bool kCluster>
__global__ void __launch_bounds__(kThreads) AttendStep(AttentionStepArguments step) {
  using Memory = StepMemory<T, kSize, kHeads>;
  using OfLane = KeyOfLane<T>;
  constexpr int kLanesOfKey = kSize / kWidth;
  constexpr int kKeysOfWarp = kWarp / kLanesOfKey;
  constexpr int kKeysOfBlock = kWarps * kKeysOfWarp;
  __shared__ __align__(16) Memory memory;
  const AttentionArguments& arguments = step.attention;
  const AttentionTokensArguments& tokens = step.tokens;
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / kWarp;
  const int lane = thread % kWarp;
  const int group = arguments.heads / arguments.kv_heads;
  const int chunks = CeilDiv(group, kHeads);
  const int split = static_cast<int>(blockIdx.x);
  const int kv_head = static_cast<int>(blockIdx.y) / chunks;
  const int first_head = kv_head * group + static_cast<int>(blockIdx.y) % chunks * kHeads;
  const int heads = Smaller(kHeads, (kv_head + 1) * group - first_head);
  const int b = static_cast<int>(blockIdx.z);
  const int size = arguments.head_size;

  AllowNext();
  // A bound cache and its lengths are older than the run.
  if (!arguments.lengths.past) AwaitPrevious();
  const int position = PastTokens(arguments.lengths, b, 1);
  const int key_tokens = Smaller(KeyTokens(arguments.lengths, b, 1), arguments.cache.capacity_tokens);
  const KeyRange visible = VisibleKeys(arguments, position, key_tokens);
  const int steps = CeilDiv(visible.end - visible.begin, kKeysOfBlock);
  const int keys_of_split = CeilDiv(steps, arguments.splits) * kKeysOfBlock;
  const int begin = Smaller(visible.end, visible.begin + split * keys_of_split);
  const int end = Smaller(visible.end, begin + keys_of_split);
  const bool has_new = position >= begin && position < end;

  const int channel = lane % kLanesOfKey * kWidth;
  // A sequence lies in one block of the cache.
  char* const keys = TokenAddress(arguments.cache, arguments.cache.key, b, kv_head, 0);
  char* const values = TokenAddress(arguments.cache, arguments.cache.value, b, kv_head, 0);
  const int64_t key_stride = arguments.cache.key.token_stride_bytes;
  const int64_t value_stride = arguments.cache.value.token_stride_bytes;
  const auto load = [&](int key, OfLane& of_lane) {
    of_lane = {};
    if (key >= end || key == position || channel >= size) return;
    of_lane.key = LoadPack<kWidth>(reinterpret_cast<const T*>(keys + key * key_stride) + channel);
    of_lane.value = LoadPack<kWidth>(reinterpret_cast<const T*>(values + key * value_stride) + channel);
  };
  OfLane loaded[kAhead];
  int first_key = begin + warp * kKeysOfWarp + lane / kLanesOfKey;
  const auto load_next = [&] {
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) load(first_key + ahead * kKeysOfBlock, loaded[ahead]);
  };
  load_next();
  AwaitPrevious();

  // The queries, and the new token where it is this block's. Channels and heads that are not there are zeros.
  for (int i = thread; i < (kHeads + 2) * kSize; i += kThreads) {
    memory.vectors[i / kSize][i % kSize] = FromFloat<T>(0.0f);
  }
  __syncthreads();
  const T* cos = nullptr;
  const T* sin = nullptr;
  if (tokens.cos) {
    const int64_t row =
        RotaryRow(tokens.position, tokens.ids, b, 0, 1, position, tokens.cache_rows) * tokens.pairs;
    cos = static_cast<const T*>(tokens.cos) + row;
    sin = static_cast<const T*>(tokens.sin) + row;
  }
  const bool is_key = warp == kHeads;
  if (warp < heads || (is_key && has_new)) {
    const T* x = is_key ? static_cast<const T*>(tokens.key) + b * tokens.key_strides.batch +
                              kv_head * tokens.key_strides.head
                        : static_cast<const T*>(tokens.query) + b * tokens.query_strides.batch +
                              (first_head + warp) * tokens.query_strides.head;
    const void* norm = is_key ? tokens.k_norm : tokens.q_norm;
    PrepareHead<T>(x, memory.vectors[warp], size, static_cast<const T*>(norm), tokens.norm_epsilon, cos, sin,
                   tokens.pairs, tokens.interleaved, memory.prepared[warp]);
    // Where several blocks share the key head, all write the same.
    T* place = reinterpret_cast<T*>(keys + position * key_stride);
    for (int i = lane; is_key && i < size; i += kWarp) place[i] = memory.vectors[kHeads][i];
  } else if (warp == kHeads + 1 && has_new) {
    const T* x = static_cast<const T*>(tokens.value) + b * tokens.value_strides.batch +
                 kv_head * tokens.value_strides.head;
    T* place = reinterpret_cast<T*>(values + position * value_stride);
    for (int i = lane; i < size; i += kWarp) place[i] = memory.vectors[kHeads + 1][i] = x[i];
  }
  __syncthreads();

  Running<kHeads> running;
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    running.maxima[h] = -INFINITY;
    running.sums[h] = 0;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) running.outputs[h][i] = 0;
  }
  float queries[kHeads][kWidth];
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    const Pack<T, kWidth> query = LoadPack<kWidth>(memory.vectors[h] + channel);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) queries[h][i] = ToFloat(query.values[i]);
  }
  // Whole warps go through the loop: all lanes take part in exchanges.
  for (int first = begin; first < end; first += kAhead * kKeysOfBlock) {
    OfLane current[kAhead];
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      current[ahead] = loaded[ahead];
      if (first_key + ahead * kKeysOfBlock != position) continue;
      current[ahead].key = LoadPack<kWidth>(memory.vectors[kHeads] + channel);
      current[ahead].value = LoadPack<kWidth>(memory.vectors[kHeads + 1] + channel);
    }
    const int current_key = first_key;
    first_key += kAhead * kKeysOfBlock;
    load_next();  // under way while these are computed

    float products[kAhead][kHeads] = {};
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const float key = ToFloat(current[ahead].key.values[i]);
#pragma unroll
        for (int h = 0; h < kHeads; ++h) products[ahead][h] += queries[h][i] * key;
      }
    }
#pragma unroll
    for (int offset = kLanesOfKey / 2; offset > 0; offset /= 2) {
#pragma unroll
      for (int ahead = 0; ahead < kAhead; ++ahead) {
#pragma unroll
        for (int h = 0; h < kHeads; ++h) {
          products[ahead][h] += __shfl_xor_sync(kFullMask, products[ahead][h], offset);
        }
      }
    }
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      float max = running.maxima[h];
#pragma unroll
      for (int ahead = 0; ahead < kAhead; ++ahead) {
        const int key = current_key + ahead * kKeysOfBlock;
        products[ahead][h] = key < end && h < heads ? products[ahead][h] * arguments.scale : -INFINITY;
        max = fmaxf(max, products[ahead][h]);
      }
      const float correction = Weight(running.maxima[h], max);
      running.maxima[h] = max;
      running.sums[h] *= correction;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) running.outputs[h][i] *= correction;
#pragma unroll
      for (int ahead = 0; ahead < kAhead; ++ahead) {
        products[ahead][h] = Weight(products[ahead][h], max);
        running.sums[h] += products[ahead][h];
      }
    }
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        const float value = ToFloat(current[ahead].value.values[i]);
#pragma unroll
        for (int h = 0; h < kHeads; ++h) running.outputs[h][i] += products[ahead][h] * value;
      }
    }
  }

  // Of the warp: lanes with the same channels.
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    float max = running.maxima[h];
#pragma unroll
    for (int offset = kLanesOfKey; offset < kWarp; offset *= 2) {
      max = fmaxf(max, __shfl_xor_sync(kFullMask, max, offset));
    }
    const float correction = Weight(running.maxima[h], max);
    float sum = running.sums[h] * correction;
#pragma unroll
    for (int offset = kLanesOfKey; offset < kWarp; offset *= 2) {
      sum += __shfl_xor_sync(kFullMask, sum, offset);
    }
    if (lane == 0) {
      memory.maxima[warp][h] = max;
      memory.sums[warp][h] = sum;
    }
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      float output = running.outputs[h][i] * correction;
#pragma unroll
      for (int offset = kLanesOfKey; offset < kWarp; offset *= 2) {
        output += __shfl_xor_sync(kFullMask, output, offset);
      }
      if (lane < kLanesOfKey) memory.outputs[warp][h][channel + i] = output;
    }
  }
  __syncthreads();
  // Of the block: into the first warp's place.
  if (thread < kHeads * kWarps) {
    const int h = thread / kWarps;
    float max = -INFINITY;
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) max = fmaxf(max, memory.maxima[w][h]);
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += memory.sums[w][h] * Weight(memory.maxima[w][h], max);
    memory.weights[thread % kWarps][h] = Weight(memory.maxima[thread % kWarps][h], max);
    memory.block_maxima[h] = max;
    memory.block_sums[h] = sum;
  }
  __syncthreads();
  for (int i = thread; i < kHeads * kSize; i += kThreads) {
    const int h = i / kSize;
    float output = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) output += memory.outputs[w][h][i % kSize] * memory.weights[w][h];
    memory.outputs[0][h][i % kSize] = output;
  }
  if constexpr (kCluster) {
    SyncCluster();
    const int count = heads * size;
    const int share = CeilDiv(count, arguments.splits);
    for (int i = split * share + thread; i < Smaller(count, (split + 1) * share); i += kThreads) {
      const int h = i / size;
      const float sink = SinkOf<T>(arguments, first_head + h);
      float maxima[kMaxClusterBlocks];
      float sums[kMaxClusterBlocks];
      float outputs[kMaxClusterBlocks];
#pragma unroll
      for (int r = 0; r < kMaxClusterBlocks; ++r) {
        const int from = Smaller(r, arguments.splits - 1);
        maxima[r] = LoadFromCluster(&memory.block_maxima[h], from);
        sums[r] = LoadFromCluster(&memory.block_sums[h], from);
        outputs[r] = LoadFromCluster(&memory.outputs[0][h][i % size], from);
      }
      float max = sink;
#pragma unroll
      for (int r = 0; r < kMaxClusterBlocks; ++r) max = fmaxf(max, maxima[r]);
      float sum = Weight(sink, max);
      float output = 0;
#pragma unroll
      for (int r = 0; r < kMaxClusterBlocks; ++r) {
        const float weight = r < arguments.splits ? Weight(maxima[r], max) : 0.0f;
        sum += weight * sums[r];
        output += weight * outputs[r];
      }
      OutputOf<T>(arguments, b, 0, first_head + h)[i % size] = FromFloat<T>(sum > 0.0f ? output / sum : 0.0f);
    }
    SyncCluster();  // shared memory lives until all have read it
  } else {
    __syncthreads();
    for (int i = thread; i < heads * size; i += kThreads) {
      const int h = i / size;
      const int64_t item = (int64_t{b} * arguments.heads + first_head + h) * arguments.splits + split;
      float* place = arguments.workspace + item * (size + 2);
      place[i % size] = memory.outputs[0][h][i % size];
      if (i % size == 0) {
        place[size] = memory.block_maxima[h];
        place[size + 1] = memory.block_sums[h];
      }
    }
  }
}

template <typename T, int kSize, int kHeads>
int LaunchHeads(const LaunchTarget& target, AttentionStepArguments arguments) {
  AttentionArguments& attention = arguments.attention;
  const int chunks = CeilDiv(attention.heads / attention.kv_heads, kHeads);
  const auto grid = [&] {
    return dim3(static_cast<unsigned>(attention.splits), static_cast<unsigned>(attention.kv_heads * chunks),
                static_cast<unsigned>(attention.batch));
  };
  if (HasClusters(target)) {
    if (attention.splits > kMaxClusterBlocks) attention.splits = kMaxClusterBlocks;
    return LaunchClusters(target, AttendStep<T, kSize, kHeads, true>, grid(),
                          static_cast<unsigned>(attention.splits), kThreads, arguments);
  }
  if (attention.splits == 1) return kErrorNotSupported;  // there is no workspace
  const int error =
      LaunchOverlapped(target, AttendStep<T, kSize, kHeads, false>, grid(), kThreads, 0, arguments);
  return error != 0 ? error : LaunchMergeSplits(target, attention);
}

template <typename T>
int LaunchTyped(const LaunchTarget& target, const AttentionStepArguments& arguments) {
  if (arguments.attention.head_size <= 64) return LaunchHeads<T, 64, kMaxHeads>(target, arguments);
  return LaunchHeads<T, 128, kMaxHeads>(target, arguments);
}

}  // namespace

int LaunchAttentionStep(const LaunchTarget& target, const AttentionStepArguments& arguments) {
  const AttentionArguments& attention = arguments.attention;
  constexpr int kMaxSize = 128;
  constexpr int kMaxGrid = 65535;
  const bool serves = attention.sequence == 1 && attention.head_size == attention.value_head_size &&
                      attention.head_size <= kMaxSize && attention.head_size % kWidth == 0 &&
                      attention.type != ElementType::kFloat && attention.batch <= kMaxGrid &&
                      attention.splits >= 1 && attention.splits <= kWarp && attention.softcap == 0.0f &&
                      !attention.biases[0].data && !attention.biases[1].data &&
                      attention.cache.block_tokens >= attention.cache.capacity_tokens;
  if (!serves) return kErrorNotSupported;
  if (attention.batch == 0) return 0;
  if (attention.type == ElementType::kFloat16) return LaunchTyped<__half>(target, arguments);
  return LaunchTyped<__nv_bfloat16>(target, arguments);
}

}  // namespace lamina::cuda
