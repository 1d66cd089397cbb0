// Where the rows of a batch stand and where their keys lie: what the kernels of attention share.
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

}  // namespace lamina::cuda
