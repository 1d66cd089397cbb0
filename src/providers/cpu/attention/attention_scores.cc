#include <algorithm>
#include <cmath>

#include "base/element_type.h"
#include "base/thread_pool.h"
#include "providers/cpu/attention/attention.h"
#include "providers/cpu/attention/kv_address.h"
#include "providers/cpu/simd/vec_math.h"

namespace lamina {
namespace {

float LoadFloat(DataType type, const void* data, int64_t index) {
  if (type == DataType::kFloat) return static_cast<const float*>(data)[index];
  if (type == DataType::kFloat16) return static_cast<const Float16*>(data)[index];
  return static_cast<const Bfloat16*>(data)[index];
}

float BiasOf(const AttentionBias& bias, int64_t sequence, int64_t head, int64_t query, int64_t key) {
  if (key >= bias.keys) return -INFINITY;
  const int64_t offset = sequence * bias.batch_stride + head * bias.head_stride + query * bias.query_stride +
                         key * bias.key_stride;
  if (bias.type == DataType::kBool)
    return static_cast<const uint8_t*>(bias.data)[offset] ? 0.0f : bias.masked;
  if (bias.type == DataType::kInt32)
    return static_cast<const int32_t*>(bias.data)[offset] ? 0.0f : bias.masked;
  return LoadFloat(bias.type, bias.data, offset);
}

// One row of scores, in place of which the caller gave room for ld elements; keys past the sequence's end
// are hidden.
void ScoreRow(const AttentionParams& params, ScoreStage stage, float hidden, int64_t sequence_index,
              int64_t head, int64_t query, int64_t ld, int64_t row, void* scores) {
  const AttentionSequence& sequence = params.sequences[sequence_index];
  const int64_t kv_head = head / (params.heads / params.kv.kv_heads);
  const int64_t q = (sequence.first_token + query) * params.q_token_stride + head * params.q_head_stride;
  const int64_t position = sequence.query_offset + query;
  const auto score_of = [&](int64_t key) {
    const bool seen = key < sequence.kv_tokens &&
                      (params.window_left < 0 || key >= position - params.window_left) &&
                      (params.window_right < 0 || key <= position + params.window_right);
    if (!seen && stage == ScoreStage::kSoftmax) return -INFINITY;
    if (!seen && stage == ScoreStage::kMasked) return hidden;
    if (key >= sequence.kv_tokens) return 0.0f;
    const void* k = KvTokenAddress(params.kv, params.kv.key, sequence_index, kv_head, key);
    float sum = 0;
    for (int64_t d = 0; d < params.kv.key.head_size; ++d) {
      sum += LoadFloat(params.type, params.query, q + d) * LoadFloat(params.kv.type, k, d);
    }
    float score = sum * params.scale;
    if (stage >= ScoreStage::kCapped && params.softcap > 0)
      score = params.softcap * std::tanh(score / params.softcap);
    for (const AttentionBias& bias : params.biases) {
      if (stage >= ScoreStage::kMasked && bias.data) score += BiasOf(bias, sequence_index, head, query, key);
    }
    return score;
  };
  const int64_t element_bytes = DataTypeBits(params.type) / 8;
  char* out = static_cast<char*>(scores) + row * ld * element_bytes;
  float maximum = -INFINITY;
  float sum = 0;
  if (stage == ScoreStage::kSoftmax) {
    float sink = -INFINITY;
    if (params.sinks) sink = LoadFloat(params.sinks_type, params.sinks, head);
    if (params.zero_sink) sink = 0;
    maximum = sink;
    for (int64_t key = 0; key < ld; ++key) maximum = std::max(maximum, score_of(key));
    if (maximum > -INFINITY) {
      sum = std::exp(sink - maximum);
      for (int64_t key = 0; key < ld; ++key) sum += std::exp(score_of(key) - maximum);
    }
  }
  for (int64_t key = 0; key < ld; ++key) {
    float value = score_of(key);
    if (stage == ScoreStage::kSoftmax) value = sum > 0 ? std::exp(value - maximum) / sum : 0.0f;
    ConvertFromFloat(params.type, &value, out + key * element_bytes, 1);
  }
}

}  // namespace

void WriteAttentionScores(ThreadPool& threads, const AttentionParams& params, ScoreStage stage, float hidden,
                          int64_t ld, void* scores) {
  const int64_t q_tokens = params.batch > 0 ? params.sequences[0].q_tokens : 0;
  threads.ParallelFor(params.batch * params.heads * q_tokens, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      ScoreRow(params, stage, hidden, row / q_tokens / params.heads, row / q_tokens % params.heads,
               row % q_tokens, ld, row, scores);
    }
  });
}

}  // namespace lamina
