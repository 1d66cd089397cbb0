// Where the rows of a batch stand, where their keys lie and which a query sees: what the kernels of attention
// share.
#pragma once

#include "providers/cuda/device/platform.cuh"

namespace lamina::cuda {

// Tokens of sequence b before this run.
__device__ inline int PastTokens(const RowLengths& lengths, int b, int sequence) {
  if (lengths.past) return lengths.past[b];
  if (!lengths.last) return lengths.fixed_past;
  if (lengths.first_prompt != 0) return 0;
  const int past = lengths.last[b] + 1 - sequence;
  return past > 0 ? past : 0;
}

// Valid tokens of sequence b, the run's included: a prompt row shorter than the others ends with padding.
__device__ inline int KeyTokens(const RowLengths& lengths, int b, int sequence) {
  const int past = PastTokens(lengths, b, sequence);
  if (!lengths.past && lengths.last) {
    const int total = lengths.last[b] + 1;
    return total < past + sequence ? total : past + sequence;
  }
  return past + sequence;
}

__device__ inline char* TokenAddress(const KvCacheArguments& cache, const KvPlaneArguments& plane, int b,
                                     int head, int token) {
  const int index = b * cache.blocks_per_sequence + token / cache.block_tokens;
  const int64_t block = cache.block_table ? cache.block_table[index] : index;
  return static_cast<char*>(plane.base) + block * plane.block_stride_bytes + head * plane.head_stride_bytes +
         token % cache.block_tokens * plane.token_stride_bytes;
}

__device__ inline int64_t RotaryRow(RotaryPosition position, const int64_t* ids, int b, int s, int sequence,
                                    int past, int64_t rows) {
  int64_t row = 0;
  switch (position) {
    case RotaryPosition::kByToken:
      row = int64_t{b} * sequence + s;
      break;
    case RotaryPosition::kIds:
      row = ids[int64_t{b} * sequence + s];
      break;
    case RotaryPosition::kFirstId:
      row = ids[0] + s;
      break;
    default:
      row = int64_t{past} + s;
      break;
  }
  // A position that the caches do not have was refused on the host where the host knows it.
  return row < 0 ? 0 : (row < rows ? row : rows - 1);
}

// Element i of a head after its rotation by `pairs` angles; what lies behind them stays.
template <typename T, typename Load>
__device__ inline float Rotated(int i, int pairs, int interleaved, const T* cos, const T* sin, Load load) {
  if (i >= 2 * pairs) return load(i);
  const int pair = interleaved != 0 ? i / 2 : i % pairs;
  const bool second = interleaved != 0 ? i % 2 == 1 : i >= pairs;
  const float real = load(interleaved != 0 ? 2 * pair : pair);
  const float imaginary = load(interleaved != 0 ? 2 * pair + 1 : pair + pairs);
  const float c = ToFloat(cos[pair]);
  const float s = ToFloat(sin[pair]);
  return second ? real * s + imaginary * c : real * c - imaginary * s;
}

// Reads a head, normalises and rotates it and writes it; a warp. `shared`: [head_size].
template <typename T>
__device__ inline void PrepareHead(const T* x, T* y, int head_size, const T* norm, float epsilon,
                                   const T* cos, const T* sin, int pairs, int interleaved, float* shared) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  float squares = 0;
  for (int i = lane; i < head_size; i += kWarp) {
    const float value = ToFloat(x[i]);
    shared[i] = value;
    squares += value * value;
  }
  if (norm) {
    const float inverse = rsqrtf(WarpSum(squares) / static_cast<float>(head_size) + epsilon);
    for (int i = lane; i < head_size; i += kWarp) {
      // Rounded as a norm of its own would round it.
      shared[i] = ToFloat(FromFloat<T>(shared[i] * inverse * ToFloat(norm[i])));
    }
  }
  __syncwarp();
  for (int i = lane; i < head_size; i += kWarp) {
    const auto load = [&](int j) { return shared[j]; };
    y[i] = FromFloat<T>(cos ? Rotated(i, pairs, interleaved, cos, sin, load) : shared[i]);
  }
  __syncwarp();
}

struct KeyRange {
  int begin;
  int end;
};

__device__ inline int Smaller(int a, int b) { return a < b ? a : b; }
__device__ inline int Larger(int a, int b) { return a > b ? a : b; }

// The keys that the query at `position` may see.
__device__ inline KeyRange VisibleKeys(const AttentionArguments& arguments, int position, int tokens) {
  KeyRange range = {0, tokens};
  for (const AttentionBiasArguments& bias : arguments.biases) {
    if (bias.data) range.end = Smaller(range.end, static_cast<int>(bias.keys));
  }
  if (arguments.window_right >= 0) range.end = Smaller(range.end, position + arguments.window_right + 1);
  if (arguments.window_left >= 0) range.begin = Larger(0, position - arguments.window_left);
  if (range.end < range.begin) range.end = range.begin;
  return range;
}

__device__ inline float BiasAt(const AttentionBiasArguments& bias, int b, int head, int s, int key) {
  const int64_t index =
      b * bias.batch_stride + head * bias.head_stride + s * bias.query_stride + key * bias.key_stride;
  switch (bias.type) {
    case ElementType::kBool:
      return static_cast<const uint8_t*>(bias.data)[index] != 0 ? 0.0f : bias.masked;
    case ElementType::kInt32:
      return static_cast<const int32_t*>(bias.data)[index] != 0 ? 0.0f : bias.masked;
    default:
      return LoadAsFloat(bias.type, bias.data, index);
  }
}

__device__ inline float FinishScore(const AttentionArguments& arguments, float product, int b, int head,
                                    int s, int key) {
  float score = product * arguments.scale;
  if (arguments.softcap > 0.0f) score = arguments.softcap * tanhf(score / arguments.softcap);
  for (const AttentionBiasArguments& bias : arguments.biases) {
    if (bias.data) score += BiasAt(bias, b, head, s, key);
  }
  return score;
}

// exp(score - max); a maximum of -infinity stands for no key at all.
__device__ inline float Weight(float score, float max) { return max == -INFINITY ? 0.0f : expf(score - max); }

template <typename T>
__device__ inline float SinkOf(const AttentionArguments& arguments, int head) {
  if (arguments.sinks) return ToFloat(static_cast<const T*>(arguments.sinks)[head]);
  return arguments.zero_sink != 0 ? 0.0f : -INFINITY;
}

template <typename T>
__device__ inline T* OutputOf(const AttentionArguments& arguments, int b, int s, int head) {
  return static_cast<T*>(arguments.out) + b * arguments.out_strides.batch + s * arguments.out_strides.token +
         head * arguments.out_strides.head;
}

// Merges the partial results of splits in the workspace; see attention.cu.
int LaunchMergeSplits(const LaunchTarget& target, const AttentionArguments& arguments);

// Many queries by the matrix units; see attention_tiles.cu.
bool TilesServe(const LaunchTarget& target, const AttentionArguments& arguments);
int LaunchAttentionTiles(const LaunchTarget& target, const AttentionArguments& arguments);

}  // namespace lamina::cuda
