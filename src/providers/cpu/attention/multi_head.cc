#include "providers/cpu/attention/multi_head.h"

#include <cmath>

#include "base/error.h"
#include "providers/cpu/attention/kv_address.h"

namespace lamina {

MultiHeadAttributes::MultiHeadAttributes(const NodeInfo& node)
    : num_heads(node.Int("num_heads", 0)),
      scale(node.Float("scale", 0.0f)),
      mask_filter_value(node.Float("mask_filter_value", -10000.0f)),
      causal(node.Int("unidirectional", 0) != 0) {}

Status MultiHeadAttributes::Validate(const NodeInfo& node) {
  const int64_t heads = node.Int("num_heads", 0);
  if (heads > 0) return Status();
  return InvalidModelError("node '{}': {}: num_heads must be positive, found {}", node.name(), node.op_type(),
                           heads);
}

void Projections::SetPlanesOfRows(DataType type, const void* rows) {
  const int64_t element_bytes = DataTypeBits(type) / 8;
  const int64_t row_bytes = (q.heads * q.size + k.heads * k.size + v.heads * v.size) * element_bytes;
  const char* data = static_cast<const char*>(rows);
  const auto next_plane = [&](const Heads& heads) {
    KvPlane plane = PlaneOfTokens(const_cast<char*>(data), type, heads.heads, heads.tokens, heads.size);
    plane.token_stride_bytes = row_bytes;
    plane.block_stride_bytes = heads.tokens * row_bytes;
    data += heads.heads * heads.size * element_bytes;
    return plane;
  };
  query = next_plane(q);
  key = next_plane(k);
  value = next_plane(v);
}

size_t Projections::TotalBytes(DataType type) const {
  const auto elements = [](const Heads& heads) {
    return heads.batch * heads.tokens * heads.heads * heads.size;
  };
  return static_cast<size_t>((elements(q) + elements(k) + elements(v)) * DataTypeBits(type) / 8);
}

AttentionLimits LimitsOf(const Projections& projections, int lanes) {
  AttentionLimits limits;
  limits.batch = projections.q.batch;
  limits.q_tokens = projections.q.tokens;
  limits.heads = projections.q.heads;
  limits.kv_heads = projections.q.heads;
  limits.head_size = projections.q.size;
  limits.value_head_size = projections.v.size;
  limits.lanes = lanes;
  return limits;
}

void AddBiasToHeads(ThreadPool& threads, DataType type, const void* bias, const Heads& heads, KvPlane& plane,
                    char*& memory) {
  const KvPlane target = PlaneOfTokens(memory, type, heads.heads, heads.tokens, heads.size);
  ConcatenateTokens(threads, nullptr, 0, plane, heads, target, type, bias);
  memory += heads.batch * target.block_stride_bytes;
  plane = target;
}

Result<ProjectionBias> SplitBias(const Tensor& bias, const Projections& projections) {
  const int64_t hidden = projections.q.heads * projections.q.size;
  const int64_t total = 2 * hidden + projections.v.heads * projections.v.size;
  if (bias.shape() != Shape{total}) {
    return InvalidArgumentError("bias must have shape [{}], found {}", total, bias.shape().ToString());
  }
  const char* data = static_cast<const char*>(bias.raw_data());
  const int64_t hidden_bytes = hidden * DataTypeBits(bias.type()) / 8;
  return ProjectionBias{data, data + hidden_bytes, data + 2 * hidden_bytes};
}

Result<AttentionBias> KeyMask(const Tensor& mask, const Projections& projections, int64_t total,
                              float mask_filter_value) {
  const int64_t batch = projections.q.batch;
  const int64_t sequence = projections.q.tokens;
  const bool by_query = mask.shape() == Shape{batch, sequence, total};
  if (!by_query && mask.shape() != Shape{batch, total}) {
    return InvalidArgumentError("the mask must have shape [{},{}] or [{},{},{}], found {}", batch, total,
                                batch, sequence, total, mask.shape().ToString());
  }
  AttentionBias bias;
  bias.data = mask.raw_data();
  bias.type = DataType::kInt32;
  bias.masked = mask_filter_value;
  bias.key_stride = 1;
  bias.query_stride = by_query ? total : 0;
  bias.batch_stride = by_query ? sequence * total : total;
  bias.keys = total;
  return bias;
}

Result<AttentionBias> ScoreBias(const Tensor& attention_bias, const Projections& projections, int64_t total) {
  const Shape& shape = attention_bias.shape();
  const int64_t batch = projections.q.batch;
  const int64_t heads = projections.q.heads;
  const int64_t sequence = projections.q.tokens;
  const bool fits = shape.rank() == 4 && (shape[0] == 1 || shape[0] == batch) &&
                    (shape[1] == 1 || shape[1] == heads) && (shape[2] == 1 || shape[2] == sequence) &&
                    shape[3] == total;
  if (!fits) {
    return InvalidArgumentError("attention_bias must have shape [{}|1,{}|1,{}|1,{}], found {}", batch, heads,
                                sequence, total, shape.ToString());
  }
  AttentionBias bias;
  bias.data = attention_bias.raw_data();
  bias.type = attention_bias.type();
  bias.keys = total;
  bias.key_stride = 1;
  bias.query_stride = shape[2] == 1 ? 0 : total;
  bias.head_stride = shape[1] == 1 ? 0 : shape[2] * total;
  bias.batch_stride = shape[0] == 1 ? 0 : shape[1] * shape[2] * total;
  return bias;
}

AttentionParams ParamsOf(const MultiHeadAttributes& attributes, const Projections& projections, DataType type,
                         const AttentionSequence* sequences, Tensor& output) {
  const int64_t element_bytes = DataTypeBits(type) / 8;
  AttentionParams params;
  params.type = type;
  params.query = projections.query.base;
  params.q_token_stride = projections.query.token_stride_bytes / element_bytes;
  params.q_head_stride = projections.query.head_stride_bytes / element_bytes;
  params.output = output.mutable_raw_data();
  params.out_token_stride = projections.v.heads * projections.v.size;
  params.out_head_stride = projections.v.size;
  params.heads = projections.q.heads;
  params.scale =
      attributes.scale != 0.0f ? attributes.scale : 1.0f / std::sqrt(static_cast<float>(projections.q.size));
  params.window_right = attributes.causal ? 0 : -1;
  params.sequences = sequences;
  params.batch = projections.q.batch;
  return params;
}

}  // namespace lamina
