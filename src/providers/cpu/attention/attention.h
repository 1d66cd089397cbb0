// The attention core that every attention operator is an adapter of: packed query tokens of a ragged batch
// against keys and values in a cache or in tensors.
//
//   output[t, h] = softmax_j(cap(scale q[t, h] . k[j]) + bias[h, t, j]) v[j]    over the keys j that t may
//   see
//
// with h's keys and values those of kv head h / (heads / kv_heads), and cap(x) = c tanh(x / c) for a softcap
// c > 0. A query that sees no key gives zeros. Sums are fp32 whatever the element type.
//
// Queries of a sequence are its last tokens or any others: query i stands at key position query_offset + i.
// It sees key j where j < kv_tokens, position - window_left <= j <= position + window_right (-1: no bound).
//
// Work is split into blocks of query rows (prefill: tiles of keys with a running softmax) and, where a
// sequence has few query rows, into runs of keys (decode: partial results merged in order). Which, depends on
// the sizes alone, so that results are equal for every number of threads. Never allocates: see
// AttentionWorkspaceBytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "provider/kv_view.h"
#include "providers/cpu/simd/cpu_isa.h"

namespace lamina {

class ThreadPool;

// One sequence of the batch.
struct AttentionSequence {
  int64_t first_token = 0;  // its first query in the packed tokens
  int64_t q_tokens = 0;
  int64_t kv_tokens = 0;     // valid keys
  int64_t query_offset = 0;  // key position of its first query
};

// A term added to the scores: element (b, h, i, j) for query i and key j of sequence b at
// data + b * batch_stride + h * head_stride + i * query_stride + j * key_stride (in elements).
struct AttentionBias {
  const void* data = nullptr;  // null: no bias
  DataType type = DataType::kFloat;
  // float, float16, bfloat16: added. bool, int32: where zero, `masked` is added.
  float masked = 0;
  int64_t batch_stride = 0;
  int64_t head_stride = 0;
  int64_t query_stride = 0;
  int64_t key_stride = 0;
  int64_t keys = 0;  // keys it covers; those after it are not seen
};

struct AttentionParams {
  DataType type = DataType::kFloat;  // of query and output: float, float16 or bfloat16
  const void* query = nullptr;       // element (t, h, d) at t * token_stride + h * head_stride + d
  int64_t q_token_stride = 0;
  int64_t q_head_stride = 0;
  void* output = nullptr;
  int64_t out_token_stride = 0;
  int64_t out_head_stride = 0;
  int64_t heads = 0;

  // Keys and values; kv.past_lengths and capacity_tokens are not read. kv.block_table may be null where each
  // sequence is one block.
  KvView kv;

  float scale = 1;
  float softcap = 0;          // 0: none
  int64_t window_left = -1;   // keys before the position; -1: all
  int64_t window_right = -1;  // keys after it; causal attention is 0
  AttentionBias biases[2];
  // Logits that take part in the softmax without a value, one for each head; null: none.
  const void* sinks = nullptr;
  DataType sinks_type = DataType::kFloat;
  bool zero_sink = false;  // one sink of logit 0 for all heads (sinks == null)

  const AttentionSequence* sequences = nullptr;
  int64_t batch = 0;
};

// What a workspace has to suffice for, as upper bounds.
struct AttentionLimits {
  int64_t batch = 0;
  int64_t q_tokens = 0;  // of one sequence
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_size = 0;
  int64_t value_head_size = 0;
  int lanes = 1;  // scratch areas of workers: WorkerLanes(node)
};

// Grows with every member; does not depend on the number of keys. The workspace begins with room for `batch`
// AttentionSequences, which the caller fills and points params.sequences at.
size_t AttentionWorkspaceBytes(const AttentionLimits& limits);

// REQUIRES: heads a multiple of kv heads; the sizes of `params` within `limits`; a workspace of
// AttentionWorkspaceBytes(limits), aligned to 64.
void RunAttention(ThreadPool& threads, CpuIsa isa, const AttentionParams& params,
                  const AttentionLimits& limits, void* workspace);

// Writes the scores themselves, [batch, heads, q_tokens, kv_tokens] of params.type with `ld` elements a row
// and as many queries for each sequence: for the optional outputs of attention operators. Not fast.
enum class ScoreStage {
  kScaled,   // scale q . k
  kCapped,   // after the softcap
  kMasked,   // and bias, windows, causality
  kSoftmax,  // probabilities
};
void WriteAttentionScores(ThreadPool& threads, const AttentionParams& params, ScoreStage stage, float hidden,
                          int64_t ld, void* scores);

}  // namespace lamina
