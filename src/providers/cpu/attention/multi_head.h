// What the operators of com.microsoft with as many key heads as query heads share: MultiHeadAttention,
// Attention and DecoderMaskedMultiHeadAttention are adapters that find projections, past and masks and leave
// the rest to RunAttention.
#pragma once

#include <cstdint>

#include "provider/node_info.h"
#include "providers/cpu/attention/attention.h"
#include "providers/cpu/attention/head_tensor.h"

namespace lamina {

struct MultiHeadAttributes {
  explicit MultiHeadAttributes(const NodeInfo& node);
  // num_heads is positive.
  static Status Validate(const NodeInfo& node);

  int64_t num_heads = 0;
  float scale = 0;              // 0: 1 / sqrt(head size)
  float mask_filter_value = 0;  // added to the scores that a mask hides
  bool causal = false;
};

// Queries, keys and values of a run: their sizes and where they lie. Nothing is written through the planes of
// inputs.
struct Projections {
  Heads q, k, v;
  KvPlane query, key, value;

  // Heads that lie as rows [batch, tokens, q | k | v], each part [heads * size]: sets the planes. q, k and v
  // must be set.
  void SetPlanesOfRows(DataType type, const void* rows);
  // Bytes of all heads, contiguous.
  size_t TotalBytes(DataType type) const;
};

AttentionLimits LimitsOf(const Projections& projections, int lanes);

// Copies heads with `bias` [heads * size] to `memory`, moves `plane` there and `memory` behind them.
void AddBiasToHeads(ThreadPool& threads, DataType type, const void* bias, const Heads& heads, KvPlane& plane,
                    char*& memory);

// Where `bias` [q | k | v] of the projections has its parts; an error where its length is another.
struct ProjectionBias {
  const char* q = nullptr;
  const char* k = nullptr;
  const char* v = nullptr;
};
Result<ProjectionBias> SplitBias(const Tensor& bias, const Projections& projections);

// A mask [batch, total] or [batch, sequence, total] of int32, whose zeros hide: a term of the scores.
Result<AttentionBias> KeyMask(const Tensor& mask, const Projections& projections, int64_t total,
                              float mask_filter_value);
// attention_bias [batch|1, heads|1, sequence|1, total]: a term of the scores.
Result<AttentionBias> ScoreBias(const Tensor& attention_bias, const Projections& projections, int64_t total);

// Everything but the cache and the biases.
AttentionParams ParamsOf(const MultiHeadAttributes& attributes, const Projections& projections, DataType type,
                         const AttentionSequence* sequences, Tensor& output);

}  // namespace lamina
