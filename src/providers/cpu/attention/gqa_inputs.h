// Attributes and inputs of GroupQueryAttention, validated.
#pragma once

#include <cstdint>

#include "provider/kernel.h"
#include "providers/cpu/attention/attention.h"

namespace lamina {

struct GqaAttributes {
  // Input indices.
  static constexpr int kQuery = 0, kKey = 1, kValue = 2, kPastKey = 3, kPastValue = 4, kSeqlens = 5,
                       kTotalLength = 6, kCos = 7, kSin = 8, kPositionIds = 9, kAttentionBias = 10,
                       kHeadSink = 11, kKScale = 12, kVScale = 13, kQNorm = 14, kKNorm = 15;

  int64_t num_heads = 0;
  int64_t kv_num_heads = 0;
  float scale = 0;  // 0: 1 / sqrt(head size)
  float softcap = 0;
  int64_t local_window_size = -1;  // tokens seen, the query's own included; -1: all
  bool do_rotary = false;
  bool rotary_interleaved = false;
  bool smooth_softmax = false;
  int64_t qk_output = 0;  // 1: scores before the softmax, 2: after
  bool causal = true;
  bool mask_is_causal = false;  // see GqaInputs::Parse
  bool sliding_window_cache = false;
  float qk_norm_epsilon = 1e-6f;

  // REQUIRES: Validate(node) is OK.
  static GqaAttributes Of(const NodeInfo& node);
  static Status Validate(const NodeInfo& node);

  int64_t HeadSize(int64_t hidden, bool packed) const {
    return hidden / (packed ? num_heads + 2 * kv_num_heads : num_heads);
  }
  AttentionLimits Limits(int64_t batch, int64_t sequence, int64_t head_size, int lanes) const;
};

struct GqaInputs {
  DataType type = DataType::kFloat;
  int64_t element_bytes = 4;
  int64_t batch = 0;
  int64_t sequence = 0;  // tokens of this run in each row
  int64_t head_size = 0;
  int64_t total = 0;        // total_sequence_length: the longest row, past included
  int64_t past_tokens = 0;  // dimension 2 of past_key; 0 where absent

  // Elements of token t begin at t * token_stride, heads follow each other.
  const void* query = nullptr;
  const void* key = nullptr;
  const void* value = nullptr;
  int64_t q_token_stride = 0;
  int64_t kv_token_stride = 0;

  const Tensor* past_key = nullptr;
  const Tensor* past_value = nullptr;
  const int32_t* seqlens_k = nullptr;  // [batch] tokens of a row, past included, minus 1; null: all `total`
  const void* cos_cache = nullptr;     // [positions, rotary_pairs], or a row for each token of the run
  const void* sin_cache = nullptr;
  int64_t rotary_positions = 0;
  int64_t rotary_pairs = 0;
  bool rotary_by_token = false;
  const int64_t* position_ids = nullptr;
  AttentionBias bias;
  const void* head_sink = nullptr;
  const void* q_norm = nullptr;
  const void* k_norm = nullptr;

  // What the operator's specification demands, named as ONNX Runtime names it. Beyond it: without seqlens_k
  // and total_sequence_length every row has all tokens of past_key (of its row of a bound cache) and the
  // run's; cos_cache and sin_cache may be [batch, sequence, pairs], one row for each token, without
  // position_ids; attention_bias may have one row for all queries; and mask_is_causal=1 says that
  // attention_bias hides every key behind its query, so that those need not be looked at.
  static Result<GqaInputs> Parse(KernelContext& context, const GqaAttributes& attributes);

  // A run without past: every row begins at position 0.
  bool first_prompt() const { return sequence == total; }
  // Whether every query of a row sees a key up to its own, where attention_bias hides with large negative
  // numbers. A query that sees none weighs all keys alike, those behind it too.
  bool EveryQuerySeesAKey() const;
  // Tokens of row b, past included.
  int64_t RowTotal(int64_t b) const { return seqlens_k ? int64_t{seqlens_k[b]} + 1 : total; }
  // Row of the caches that rotates token s of row b: its position, or its own.
  int64_t PositionOf(int64_t b, int64_t s, int64_t past) const {
    if (rotary_by_token) return b * sequence + s;
    return position_ids ? position_ids[b * sequence + s] : past + s;
  }
};

}  // namespace lamina
