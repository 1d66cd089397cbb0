// Attention of a decode step in one kernel: one token of each sequence, its way into the cache included.
//
// A block takes the query heads that share one key head, up to kHeads of them, and a run of keys. The lanes
// that hold a key's channels, 8 each, take a key at a time, several of them under way, with a softmax of
// their own. They also rotate the queries and the new token's key, each its own channels, so that nothing has
// to be exchanged before the scores. The blocks of all runs of keys are a cluster: each warp sends its
// results to the block that merges their channels. Without clusters blocks leave their results in the
// workspace for a second kernel.
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

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarp;
constexpr int kWidth = 8;  // channels of one 16-byte access, those of a lane
constexpr int kAhead = 4;  // keys of a lane that are under way at once

// What the warps of the kBlocks blocks of the cluster send for the channels that this block merges: of warp w
// of block r, in place r * kWarps + w. kSize: the head size rounded up to 64 or 128 channels.
template <int kSize, int kBlocks>
struct StepMemory {
  static constexpr int kChannels = kSize / kBlocks;  // that a block merges
  static constexpr int kPlaces = kBlocks * kWarps;
  float outputs[kPlaces][kChannels];
  Pack<float, 4> states[kPlaces];  // maximum and sum
};

// 8 channels of a vector.
using Channels = float[kWidth];

// How a lane rotates its channels: each with a partner.
template <typename T>
struct RotationOfLane {
  Pack<T, kWidth> cos = {};
  Pack<T, kWidth> sin = {};
  int partner;         // the first channel of the partners; not used where they are this lane's own
  float sign = -1.0f;  // of the sines; where partners are this lane's own, of the first of each pair
  bool rotates = false;

  // `channel`: the first of the lane.
  __device__ RotationOfLane(const AttentionTokensArguments& tokens, int channel, int64_t row)
      : partner(channel) {
    if (!tokens.cos || channel >= 2 * tokens.pairs) return;
    rotates = true;
    const T* cos_row = static_cast<const T*>(tokens.cos) + row * tokens.pairs;
    const T* sin_row = static_cast<const T*>(tokens.sin) + row * tokens.pairs;
    if (tokens.interleaved != 0) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        cos.values[i] = cos_row[channel / 2 + i / 2];
        sin.values[i] = sin_row[channel / 2 + i / 2];
      }
      return;
    }
    const bool is_real = channel < tokens.pairs;
    partner = is_real ? channel + tokens.pairs : channel - tokens.pairs;
    sign = is_real ? -1.0f : 1.0f;
    cos = LoadPack<kWidth>(cos_row + (is_real ? channel : partner));
    sin = LoadPack<kWidth>(sin_row + (is_real ? channel : partner));
  }
};

// The lane's channels of a head, normalised and rotated, rounded as they are where each is a kernel of its
// own. kLanes: lanes that hold a head; all lanes of the warp take part. Beyond the head's size zeros.
template <int kLanes, typename T>
__device__ inline void PrepareChannels(const T* head, int channel, const AttentionTokensArguments& tokens,
                                       const void* norm, const RotationOfLane<T>& rotation,
                                       Channels& channels) {
  const bool inside = channel < tokens.head_size;
  Pack<T, kWidth> own = {};
  Pack<T, kWidth> partners = {};
  if (inside) {
    own = LoadPack<kWidth>(head + channel);
    partners = LoadPack<kWidth>(head + rotation.partner);
  }
  if (norm) {
    float squares = 0;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) squares += ToFloat(own.values[i]) * ToFloat(own.values[i]);
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) {
      squares += __shfl_xor_sync(kFullMask, squares, offset);
    }
    const float inverse = rsqrtf(squares / static_cast<float>(tokens.head_size) + tokens.norm_epsilon);
    const T* scales = static_cast<const T*>(norm);
#pragma unroll
    for (int i = 0; inside && i < kWidth; ++i) {
      own.values[i] = FromFloat<T>(ToFloat(own.values[i]) * inverse * ToFloat(scales[channel + i]));
      partners.values[i] =
          FromFloat<T>(ToFloat(partners.values[i]) * inverse * ToFloat(scales[rotation.partner + i]));
    }
  }
  const bool is_own = tokens.interleaved != 0;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    channels[i] = ToFloat(own.values[i]);
    if (!rotation.rotates) continue;
    const float partner = ToFloat(is_own ? own.values[i ^ 1] : partners.values[i]);
    const float sign = is_own && i % 2 == 1 ? 1.0f : rotation.sign;
    const float rotated =
        channels[i] * ToFloat(rotation.cos.values[i]) + partner * sign * ToFloat(rotation.sin.values[i]);
    channels[i] = ToFloat(FromFloat<T>(rotated));
  }
}

template <typename T>
__device__ inline Pack<T, kWidth> PackOf(const Channels& channels) {
  Pack<T, kWidth> pack;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) pack.values[i] = FromFloat<T>(channels[i]);
  return pack;
}

// What a lane has seen.
struct Running {
  float max = -INFINITY;
  float sum = 0;
  Channels outputs = {};
};

// Merges what lanes with the same channels have seen: then all of them have the warp's.
template <int kLanes>
__device__ inline void MergeWarp(Running& running) {
  float max = running.max;
#pragma unroll
  for (int offset = kLanes; offset < kWarp; offset *= 2) {
    max = fmaxf(max, __shfl_xor_sync(kFullMask, max, offset));
  }
  const float correction = Weight(running.max, max);
  running.max = max;
  running.sum *= correction;
#pragma unroll
  for (int offset = kLanes; offset < kWarp; offset *= 2) {
    running.sum += __shfl_xor_sync(kFullMask, running.sum, offset);
  }
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    running.outputs[i] *= correction;
#pragma unroll
    for (int offset = kLanes; offset < kWarp; offset *= 2) {
      running.outputs[i] += __shfl_xor_sync(kFullMask, running.outputs[i], offset);
    }
  }
}

// What a block has of an output channel.
struct Merged {
  float max;
  float sum;
  float output;  // the weighted sum of values
};

// Merges channel `o` of those that this block merges. kLanes neighbouring threads share the work and all get
// the result.
template <int kLanes, typename Memory>
__device__ inline Merged MergeChannel(const Memory& memory, int o, float sink) {
  constexpr int kSteps = Memory::kPlaces / kLanes;
  static_assert(Memory::kPlaces % kLanes == 0);
  const int part = static_cast<int>(threadIdx.x) % kLanes;
  Merged merged = {sink, 0, 0};
  float maxima[kSteps];
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    maxima[step] = memory.states[step * kLanes + part].values[0];
    merged.max = fmaxf(merged.max, maxima[step]);
  }
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) {
    merged.max = fmaxf(merged.max, __shfl_xor_sync(kFullMask, merged.max, offset));
  }
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const int place = step * kLanes + part;
    const float weight = Weight(maxima[step], merged.max);
    merged.sum += weight * memory.states[place].values[1];
    merged.output += weight * memory.outputs[place][o];
  }
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) {
    merged.sum += __shfl_xor_sync(kFullMask, merged.sum, offset);
    merged.output += __shfl_xor_sync(kFullMask, merged.output, offset);
  }
  merged.sum += Weight(sink, merged.max);
  return merged;
}

// kBlocks: all runs of keys, whose blocks are a cluster; 0: there are no clusters.
template <typename T, int kSize, int kBlocks>
__global__ void __launch_bounds__(kThreads, 2) AttendStep(AttentionStepArguments step) {
  using Memory = StepMemory<kSize, kBlocks == 0 ? 1 : kBlocks>;
  constexpr bool kCluster = kBlocks > 0;
  constexpr int kLanesOfKey = kSize / kWidth;
  constexpr int kKeysOfWarp = kWarp / kLanesOfKey;
  constexpr int kKeysOfBlock = kWarps * kKeysOfWarp;
  __shared__ __align__(16) Memory memory;
  const AttentionArguments& arguments = step.attention;
  const AttentionTokensArguments& tokens = step.tokens;
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / kWarp;
  const int lane = thread % kWarp;
  const int splits = kCluster ? kBlocks : arguments.splits;
  const int split = static_cast<int>(blockIdx.x);
  const int head = static_cast<int>(blockIdx.y);
  const int kv_head = head / (arguments.heads / arguments.kv_heads);
  const int b = static_cast<int>(blockIdx.z);
  const int size = arguments.head_size;

  if constexpr (kCluster) ArriveAtCluster();  // this block is there
  AllowNext();
  // A bound cache and its lengths are older than the run.
  if (!arguments.lengths.past) AwaitPrevious();
  const int position = PastTokens(arguments.lengths, b, 1);
  const int key_tokens = Smaller(KeyTokens(arguments.lengths, b, 1), arguments.cache.capacity_tokens);
  const KeyRange visible = VisibleKeys(arguments, position, key_tokens);
  const int steps = CeilDiv(visible.end - visible.begin, kKeysOfBlock);
  const int keys_of_split = CeilDiv(steps, splits) * kKeysOfBlock;
  const int begin = Smaller(visible.end, visible.begin + split * keys_of_split);
  const int end = Smaller(visible.end, begin + keys_of_split);

  const int channel = lane % kLanesOfKey * kWidth;
  const int own_key = begin + warp * kKeysOfWarp + lane / kLanesOfKey;
  // A sequence lies in one block of the cache.
  char* const keys = TokenAddress(arguments.cache, arguments.cache.key, b, kv_head, 0);
  char* const values = TokenAddress(arguments.cache, arguments.cache.value, b, kv_head, 0);
  const auto at = [&](char* plane, const KvPlaneArguments& of, int key) {
    return reinterpret_cast<T*>(plane + key * of.token_stride_bytes) + channel;
  };
  Pack<T, kWidth> loaded_keys[kAhead];
  Pack<T, kWidth> loaded_values[kAhead];
  const auto has = [&](int key) { return key < end && key != position && channel < size; };
  const auto load_key = [&](int ahead, int key) {
    loaded_keys[ahead] = {};
    if (has(key)) loaded_keys[ahead] = LoadPack<kWidth>(at(keys, arguments.cache.key, key));
  };
  const auto load_value = [&](int ahead, int key) {
    loaded_values[ahead] = {};
    if (has(key)) loaded_values[ahead] = LoadPack<kWidth>(at(values, arguments.cache.value, key));
  };
#pragma unroll
  for (int ahead = 0; ahead < kAhead; ++ahead) load_key(ahead, own_key + ahead * kKeysOfBlock);
#pragma unroll
  for (int ahead = 0; ahead < kAhead; ++ahead) load_value(ahead, own_key + ahead * kKeysOfBlock);
  AwaitPrevious();

  const int64_t row =
      tokens.cos ? RotaryRow(tokens.position, tokens.ids, b, 0, 1, position, tokens.cache_rows) : int64_t{0};
  const RotationOfLane<T> rotation(tokens, channel, row);
  Channels query;
  PrepareChannels<kLanesOfKey>(
      static_cast<const T*>(tokens.query) + b * tokens.query_strides.batch + head * tokens.query_strides.head,
      channel, tokens, tokens.q_norm, rotation, query);
  // The new token's key and value, in the lanes whose turn it is.
  Pack<T, kWidth> new_key = {};
  Pack<T, kWidth> new_value = {};
  if (position >= begin && position < end) {  // of the whole block
    const T* key =
        static_cast<const T*>(tokens.key) + b * tokens.key_strides.batch + kv_head * tokens.key_strides.head;
    Channels prepared;
    PrepareChannels<kLanesOfKey>(key, channel, tokens, tokens.k_norm, rotation, prepared);
    new_key = PackOf<T>(prepared);
    if (channel < size) {
      new_value = LoadPack<kWidth>(static_cast<const T*>(tokens.value) + b * tokens.value_strides.batch +
                                   kv_head * tokens.value_strides.head + channel);
      // Where several blocks share the key head, all write the same.
      if ((position - own_key) % kKeysOfBlock == 0) {
        StorePack<kWidth>(at(keys, arguments.cache.key, position), new_key);
        StorePack<kWidth>(at(values, arguments.cache.value, position), new_value);
      }
    }
  }

  Running running;
  // Whole warps go through the loop: all lanes take part in exchanges.
  for (int first = begin; first < end; first += kAhead * kKeysOfBlock) {
    const int first_key = first + own_key - begin;
    float scores[kAhead] = {};
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      const int key = first_key + ahead * kKeysOfBlock;
      if (key == position) loaded_keys[ahead] = new_key;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) scores[ahead] += query[i] * ToFloat(loaded_keys[ahead].values[i]);
      load_key(ahead, key + kAhead * kKeysOfBlock);
    }
#pragma unroll
    for (int offset = kLanesOfKey / 2; offset > 0; offset /= 2) {
#pragma unroll
      for (int ahead = 0; ahead < kAhead; ++ahead) {
        scores[ahead] += __shfl_xor_sync(kFullMask, scores[ahead], offset);
      }
    }
    float max = running.max;
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      const bool is_there = first_key + ahead * kKeysOfBlock < end;
      scores[ahead] = is_there ? scores[ahead] * arguments.scale : -INFINITY;
      max = fmaxf(max, scores[ahead]);
    }
    const float correction = Weight(running.max, max);
    running.max = max;
    running.sum *= correction;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) running.outputs[i] *= correction;
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      const int key = first_key + ahead * kKeysOfBlock;
      if (key == position) loaded_values[ahead] = new_value;
      const float weight = Weight(scores[ahead], max);
      running.sum += weight;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        running.outputs[i] += weight * ToFloat(loaded_values[ahead].values[i]);
      }
      load_value(ahead, key + kAhead * kKeysOfBlock);
    }
  }

  MergeWarp<kLanesOfKey>(running);
  const int place = (kCluster ? split * kWarps : 0) + warp;
  if constexpr (kCluster) AwaitCluster();
  if (lane < kLanesOfKey) {  // the others have the same
    Pack<float, 4> halves[2];
#pragma unroll
    for (int i = 0; i < kWidth; ++i) halves[i / 4].values[i % 4] = running.outputs[i];
    float* const target = &memory.outputs[place][channel % Memory::kChannels];
    StoreToCluster(target, channel / Memory::kChannels, halves[0]);
    StoreToCluster(target + 4, channel / Memory::kChannels, halves[1]);
  }
  if (lane < (kCluster ? kBlocks : 1)) {
    StoreToCluster(memory.states[place].values, lane, Pack<float, 4>{{running.max, running.sum, 0, 0}});
  }
  if constexpr (kCluster) {
    ArriveAtCluster();
    AwaitCluster();
  } else {
    __syncthreads();
  }
  constexpr int kAllLanes = kThreads / Memory::kChannels;
  constexpr int kLanes = kAllLanes < Memory::kPlaces ? kAllLanes : Memory::kPlaces;
  const int o = thread / kLanes;
  const bool is_last = splits == (kCluster ? kBlocks : 1);
  const float sink = is_last ? SinkOf<T>(arguments, head) : -INFINITY;
  const Merged merged = MergeChannel<kLanes>(memory, o % Memory::kChannels, sink);
  const int i = (kCluster ? split * Memory::kChannels : 0) + o;
  if (thread % kLanes != 0 || o >= Memory::kChannels || i >= size) return;
  if (is_last) {
    OutputOf<T>(arguments, b, 0, head)[i] =
        FromFloat<T>(merged.sum > 0.0f ? merged.output / merged.sum : 0.0f);
    return;
  }
  const int64_t item = (int64_t{b} * arguments.heads + head) * splits + split;
  float* const partial = arguments.workspace + item * (size + 2);
  partial[i] = merged.output;
  if (i == 0) {
    partial[size] = merged.max;
    partial[size + 1] = merged.sum;
  }
}

template <typename T, int kSize>
int LaunchSized(const LaunchTarget& target, AttentionStepArguments arguments) {
  AttentionArguments& attention = arguments.attention;
  const auto launch = [&](auto kernel) {
    const dim3 grid(static_cast<unsigned>(attention.splits), static_cast<unsigned>(attention.heads),
                    static_cast<unsigned>(attention.batch));
    if (HasClusters(target)) {
      return LaunchClusters(target, kernel, grid, grid.x, kThreads, arguments);
    }
    return LaunchOverlapped(target, kernel, grid, kThreads, 0, arguments);
  };
  if (HasClusters(target)) {
    // One block on each multiprocessor at most.
    const int64_t clusters = int64_t{attention.heads} * attention.batch;
    const auto fits = [&](int blocks) {
      return blocks <= attention.splits && blocks * clusters <= target.multiprocessors;
    };
    attention.splits = fits(8) ? 8 : (fits(4) ? 4 : (fits(2) ? 2 : 1));
    switch (attention.splits) {
      case 8:
        return launch(AttendStep<T, kSize, 8>);
      case 4:
        return launch(AttendStep<T, kSize, 4>);
      case 2:
        return launch(AttendStep<T, kSize, 2>);
      default:
        return launch(AttendStep<T, kSize, 1>);
    }
  }
  const int error = launch(AttendStep<T, kSize, 0>);
  if (error != 0 || attention.splits == 1) return error;
  return LaunchMergeSplits(target, attention);
}

template <typename T>
int LaunchTyped(const LaunchTarget& target, const AttentionStepArguments& arguments) {
  if (arguments.attention.head_size <= 64) return LaunchSized<T, 64>(target, arguments);
  return LaunchSized<T, 128>(target, arguments);
}

// Whether what is read 8 channels at a time is aligned to it.
bool IsPacked(const AttentionStepArguments& step) {
  constexpr uint64_t kBytes = 16;
  const AttentionTokensArguments& tokens = step.tokens;
  const KvCacheArguments& cache = step.attention.cache;
  const auto has_strides = [](const HeadStrides& strides) {
    return strides.batch % kWidth == 0 && strides.head % kWidth == 0;
  };
  const auto is_packed = [](const KvPlaneArguments& plane) {
    return IsAligned(plane.base, kBytes) && plane.block_stride_bytes % 16 == 0 &&
           plane.head_stride_bytes % 16 == 0 && plane.token_stride_bytes % 16 == 0;
  };
  const bool has_angles = !tokens.cos || (tokens.pairs % kWidth == 0 && IsAligned(tokens.cos, kBytes) &&
                                          IsAligned(tokens.sin, kBytes));
  return has_angles && IsAligned(tokens.query, kBytes) && IsAligned(tokens.key, kBytes) &&
         IsAligned(tokens.value, kBytes) && has_strides(tokens.query_strides) &&
         has_strides(tokens.key_strides) && has_strides(tokens.value_strides) && is_packed(cache.key) &&
         is_packed(cache.value);
}

}  // namespace

int LaunchAttentionStep(const LaunchTarget& target, const AttentionStepArguments& arguments) {
  const AttentionArguments& attention = arguments.attention;
  constexpr int kMaxSize = 128;
  constexpr int kMaxGrid = 65535;
  const bool serves = attention.sequence == 1 && attention.head_size == attention.value_head_size &&
                      attention.head_size <= kMaxSize && attention.head_size % kWidth == 0 &&
                      attention.type != ElementType::kFloat && attention.batch <= kMaxGrid &&
                      attention.heads <= kMaxGrid && attention.splits >= 1 && attention.splits <= kWarp &&
                      attention.softcap == 0.0f && !attention.biases[0].data && !attention.biases[1].data &&
                      attention.cache.block_tokens >= attention.cache.capacity_tokens && IsPacked(arguments);
  if (!serves) return kErrorNotSupported;
  if (attention.batch == 0) return 0;
  if (attention.type == ElementType::kFloat16) return LaunchTyped<__half>(target, arguments);
  return LaunchTyped<__nv_bfloat16>(target, arguments);
}

}  // namespace lamina::cuda
