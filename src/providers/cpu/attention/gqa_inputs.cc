#include "providers/cpu/attention/gqa_inputs.h"

#include <algorithm>

#include "base/error.h"
#include "providers/cpu/simd/vec_math.h"

namespace lamina {
namespace {

const Tensor* Optional(const KernelContext& context, int index) {
  return index < context.num_inputs() ? context.Input(index) : nullptr;
}

Status CheckShape(const char* name, const Tensor& tensor, const Shape& expected) {
  if (tensor.shape() == expected) return Status();
  return InvalidArgumentError("{} must have shape {}, found {}", name, expected.ToString(),
                              tensor.shape().ToString());
}

// Query, key and value: three tensors, or one with all heads of a token.
Status ParseTokens(const KernelContext& context, const GqaAttributes& attributes, GqaInputs& inputs) {
  const Tensor& query = *context.Input(GqaAttributes::kQuery);
  const Tensor* key = Optional(context, GqaAttributes::kKey);
  const Tensor* value = Optional(context, GqaAttributes::kValue);
  if (query.shape().rank() != 3) {
    return InvalidArgumentError("query must have shape [batch, sequence, hidden], found {}",
                                query.shape().ToString());
  }
  if ((key == nullptr) != (value == nullptr)) {
    return InvalidArgumentError("key and value must be both present or both absent");
  }
  const int64_t q_heads = attributes.num_heads;
  const int64_t kv_heads = attributes.kv_num_heads;
  const int64_t hidden = query.shape()[2];
  const int64_t heads = key ? q_heads : q_heads + 2 * kv_heads;
  if (hidden % heads != 0) {
    return InvalidArgumentError("query's hidden size {} is not divisible into {} heads", hidden, heads);
  }
  inputs.type = query.type();
  inputs.element_bytes = DataTypeBits(query.type()) / 8;
  inputs.batch = query.shape()[0];
  inputs.sequence = query.shape()[1];
  inputs.head_size = hidden / heads;
  if (inputs.head_size % 8 != 0) {
    return InvalidArgumentError("head_size must be a multiple of 8. Got head_size % 8 == {}",
                                inputs.head_size % 8);
  }
  inputs.query = query.raw_data();
  inputs.q_token_stride = hidden;
  if (key) {
    const Shape expected{inputs.batch, inputs.sequence, kv_heads * inputs.head_size};
    LAMINA_RETURN_IF_ERROR(CheckShape("key", *key, expected));
    LAMINA_RETURN_IF_ERROR(CheckShape("value", *value, expected));
    inputs.key = key->raw_data();
    inputs.value = value->raw_data();
    inputs.kv_token_stride = kv_heads * inputs.head_size;
  } else {
    const char* data = static_cast<const char*>(query.raw_data());
    const int64_t head_bytes = inputs.head_size * inputs.element_bytes;
    inputs.key = data + q_heads * head_bytes;
    inputs.value = data + (q_heads + kv_heads) * head_bytes;
    inputs.kv_token_stride = hidden;
  }
  return Status();
}

Status ParseLengths(const KernelContext& context, GqaInputs& inputs) {
  const Tensor* seqlens = Optional(context, GqaAttributes::kSeqlens);
  const Tensor* total = Optional(context, GqaAttributes::kTotalLength);
  if (!seqlens && !total) {
    int64_t past = inputs.past_tokens;
    if (const KvView* bound = context.kv_view()) {
      past = *std::max_element(bound->past_lengths, bound->past_lengths + inputs.batch);
    }
    inputs.total = past + inputs.sequence;
    return Status();
  }
  if (!seqlens || !total) {
    return InvalidArgumentError("seqlens_k and total_sequence_length must be both present or both absent");
  }
  if (seqlens->num_elements() != inputs.batch) {
    return InvalidArgumentError("seqlens_k must have shape [{}], found {}", inputs.batch,
                                seqlens->shape().ToString());
  }
  if (total->num_elements() != 1) {
    return InvalidArgumentError("total_sequence_length must be one number, found shape {}",
                                total->shape().ToString());
  }
  inputs.seqlens_k = seqlens->data<int32_t>();
  inputs.total = *total->data<int32_t>();
  if (inputs.total < inputs.sequence) {
    return InvalidArgumentError("total_sequence_length {} is less than the sequence length {}", inputs.total,
                                inputs.sequence);
  }
  for (int64_t b = 0; b < inputs.batch; ++b) {
    if (inputs.seqlens_k[b] < 0 || inputs.seqlens_k[b] >= inputs.total) {
      return InvalidArgumentError("seqlens_k[{}] = {} is out of range [0, {})", b, inputs.seqlens_k[b],
                                  inputs.total);
    }
  }
  return Status();
}

Status ParsePast(const KernelContext& context, const GqaAttributes& attributes, GqaInputs& inputs) {
  inputs.past_key = Optional(context, GqaAttributes::kPastKey);
  inputs.past_value = Optional(context, GqaAttributes::kPastValue);
  if ((inputs.past_key == nullptr) != (inputs.past_value == nullptr)) {
    return InvalidArgumentError("past_key and past_value must be both present or both absent");
  }
  if (!inputs.past_key) {
    return Status();
  }
  const Shape& shape = inputs.past_key->shape();
  if (shape.rank() != 4) {
    return InvalidArgumentError("past_key must have shape [batch, kv_num_heads, tokens, head_size], found {}",
                                shape.ToString());
  }
  inputs.past_tokens = shape[2];
  const Shape expected{inputs.batch, attributes.kv_num_heads, inputs.past_tokens, inputs.head_size};
  LAMINA_RETURN_IF_ERROR(CheckShape("past_key", *inputs.past_key, expected));
  LAMINA_RETURN_IF_ERROR(CheckShape("past_value", *inputs.past_value, expected));
  if (attributes.sliding_window_cache && inputs.past_tokens < attributes.local_window_size) {
    return InvalidArgumentError(
        "sliding_window_cache: KV cache capacity ({}) must be at least local_window_size ({}).",
        inputs.past_tokens, attributes.local_window_size);
  }
  return Status();
}

// Where every row stands, without a bound cache.
Status CheckPast(const GqaAttributes& attributes, const GqaInputs& inputs) {
  if (inputs.first_prompt() || !inputs.seqlens_k) return Status();
  if (inputs.sequence > 1 && inputs.batch != 1) {
    return InvalidArgumentError("batch_size must be 1 when sequence_length > 1 and past context is given.");
  }
  for (int64_t b = 0; b < inputs.batch; ++b) {
    const int64_t past = inputs.seqlens_k[b] + 1 - inputs.sequence;
    if (past < 0) {
      return InvalidArgumentError("seqlens_k[{}] = {} leaves no room for {} tokens of this run", b,
                                  inputs.seqlens_k[b], inputs.sequence);
    }
    if (past > inputs.past_tokens && !attributes.sliding_window_cache) {
      return InvalidArgumentError("seqlens_k[{}] = {} asks for {} past tokens, past_key holds {}", b,
                                  inputs.seqlens_k[b], past, inputs.past_tokens);
    }
  }
  return Status();
}

Status ParseRotary(const KernelContext& context, const GqaAttributes& attributes, GqaInputs& inputs) {
  const Tensor* position_ids = Optional(context, GqaAttributes::kPositionIds);
  if (position_ids) {
    if (position_ids->num_elements() != inputs.batch * inputs.sequence) {
      return InvalidArgumentError("position_ids must have shape [{},{}], found {}", inputs.batch,
                                  inputs.sequence, position_ids->shape().ToString());
    }
    inputs.position_ids = position_ids->data<int64_t>();
  }
  if (!attributes.do_rotary) return Status();
  const Tensor* cos = Optional(context, GqaAttributes::kCos);
  const Tensor* sin = Optional(context, GqaAttributes::kSin);
  if (!cos || !sin)
    return InvalidArgumentError("cos_cache and sin_cache must be present when do_rotary is 1");
  if (inputs.head_size % 16 != 0) {
    return InvalidArgumentError("head_size shall be a multiple of 16. Got head_size % 16 == {}",
                                inputs.head_size % 16);
  }
  const int rank = cos->shape().rank();
  inputs.rotary_by_token = rank == 3 && !position_ids;
  if ((rank != 2 && !inputs.rotary_by_token) || cos->shape() != sin->shape()) {
    return InvalidArgumentError(
        "cos_cache and sin_cache must have 2 dimensions and one shape, found {} and {}",
        cos->shape().ToString(), sin->shape().ToString());
  }
  if (inputs.rotary_by_token && (cos->shape()[0] != inputs.batch || cos->shape()[1] != inputs.sequence)) {
    return InvalidArgumentError("without position_ids the caches must be [{},{},pairs], found {}",
                                inputs.batch, inputs.sequence, cos->shape().ToString());
  }
  inputs.rotary_positions = cos->shape()[0];
  inputs.rotary_pairs = cos->shape()[rank - 1];
  if (!inputs.rotary_by_token && inputs.rotary_positions < inputs.total) {
    return InvalidArgumentError("cos_cache dimension 0 shall not be less than total_sequence_length.");
  }
  if (inputs.rotary_pairs > inputs.head_size / 2 || inputs.rotary_pairs % 8 != 0) {
    return InvalidArgumentError(
        "cos_cache dimension 1 must be <= head_size / 2 and a multiple of 8, found {}", inputs.rotary_pairs);
  }
  for (int64_t i = 0; inputs.position_ids && i < inputs.batch * inputs.sequence; ++i) {
    if (inputs.position_ids[i] < 0 || inputs.position_ids[i] >= inputs.rotary_positions) {
      return InvalidArgumentError("position_ids value {} exceeds cos/sin cache range [0, {})",
                                  inputs.position_ids[i], inputs.rotary_positions);
    }
  }
  inputs.cos_cache = cos->raw_data();
  inputs.sin_cache = sin->raw_data();
  return Status();
}

Status ParseExtras(const KernelContext& context, const GqaAttributes& attributes, GqaInputs& inputs) {
  if (const Tensor* bias = Optional(context, GqaAttributes::kAttentionBias)) {
    const Shape& shape = bias->shape();
    const bool fits = shape.rank() == 4 && (shape[0] == 1 || shape[0] == inputs.batch) &&
                      (shape[1] == 1 || shape[1] == attributes.num_heads) &&
                      (shape[2] == 1 || shape[2] == inputs.sequence) && shape[3] == inputs.total;
    if (!fits) {
      return InvalidArgumentError("attention_bias must have shape [{}|1,{}|1,{}|1,{}], found {}",
                                  inputs.batch, attributes.num_heads, inputs.sequence, inputs.total,
                                  shape.ToString());
    }
    inputs.bias.data = bias->raw_data();
    inputs.bias.type = bias->type();
    inputs.bias.keys = shape[3];
    inputs.bias.key_stride = 1;
    inputs.bias.query_stride = shape[2] == 1 ? 0 : shape[3];
    inputs.bias.head_stride = shape[1] == 1 ? 0 : shape[2] * shape[3];
    inputs.bias.batch_stride = shape[0] == 1 ? 0 : shape[1] * shape[2] * shape[3];
  }
  if (const Tensor* sink = Optional(context, GqaAttributes::kHeadSink)) {
    LAMINA_RETURN_IF_ERROR(CheckShape("head_sink", *sink, Shape{attributes.num_heads}));
    inputs.head_sink = sink->raw_data();
  }
  if (const Tensor* norm = Optional(context, GqaAttributes::kQNorm)) {
    LAMINA_RETURN_IF_ERROR(CheckShape("q_norm_weight", *norm, Shape{inputs.head_size}));
    inputs.q_norm = norm->raw_data();
  }
  if (const Tensor* norm = Optional(context, GqaAttributes::kKNorm)) {
    LAMINA_RETURN_IF_ERROR(CheckShape("k_norm_weight", *norm, Shape{inputs.head_size}));
    inputs.k_norm = norm->raw_data();
  }
  return Status();
}

Status CheckAttributes(const GqaAttributes& attributes, const NodeInfo& node) {
  if (attributes.num_heads <= 0 || attributes.kv_num_heads <= 0) {
    return InvalidModelError("num_heads and kv_num_heads must be positive, found {} and {}",
                             attributes.num_heads, attributes.kv_num_heads);
  }
  if (attributes.num_heads % attributes.kv_num_heads != 0) {
    return InvalidModelError(
        "num_heads must be a multiple of kv_num_heads. Got num_heads % kv_num_heads == {}",
        attributes.num_heads % attributes.kv_num_heads);
  }
  // 0 means neither "no window" nor "the token alone": runtimes differ.
  if (attributes.local_window_size == 0 || attributes.local_window_size < -1) {
    return InvalidModelError("local_window_size must be -1 or positive, found {}",
                             attributes.local_window_size);
  }
  if (attributes.softcap < 0) {
    return InvalidModelError("softcap must not be negative, found {}", attributes.softcap);
  }
  if (attributes.qk_output < 0 || attributes.qk_output > 2) {
    return InvalidModelError("qk_output must be 0, 1 or 2, found {}", attributes.qk_output);
  }
  if (attributes.qk_output == 0 && node.HasOutput(3)) {
    return InvalidModelError("output 3 is wanted, but qk_output is 0");
  }
  if (attributes.sliding_window_cache) {
    if (!node.HasInput(GqaAttributes::kPastKey) || !node.HasInput(GqaAttributes::kPastValue)) {
      return InvalidModelError("sliding_window_cache=1 requires past_key and past_value to be present.");
    }
    if (attributes.local_window_size < 0 || !attributes.causal) {
      return InvalidModelError("sliding_window_cache=1 requires local_window_size and causal attention");
    }
  }
  for (const char* quantisation : {"k_quant_type", "v_quant_type"}) {
    if (node.String(quantisation, "NONE") != "NONE") {
      return UnsupportedError("{}={}: quantised KV caches are not supported", quantisation,
                              node.String(quantisation, "NONE"));
    }
  }
  return Status();
}

}  // namespace

GqaAttributes GqaAttributes::Of(const NodeInfo& node) {
  GqaAttributes attributes;
  attributes.num_heads = node.Int("num_heads", 0);
  attributes.kv_num_heads = node.Int("kv_num_heads", 0);
  attributes.scale = node.Float("scale", 0.0f);
  attributes.softcap = node.Float("softcap", 0.0f);
  attributes.local_window_size = node.Int("local_window_size", -1);
  attributes.do_rotary = node.Int("do_rotary", 0) != 0;
  attributes.rotary_interleaved = node.Int("rotary_interleaved", 0) != 0;
  attributes.smooth_softmax = node.Int("smooth_softmax", 0) == 1;
  attributes.qk_output = node.Int("qk_output", 0);
  attributes.causal = node.Int("causal", 1) != 0;
  attributes.mask_is_causal = node.Int("mask_is_causal", 0) != 0;
  attributes.sliding_window_cache = node.Int("sliding_window_cache", 0) != 0;
  attributes.qk_norm_epsilon = node.Float("qk_norm_epsilon", 1e-6f);
  return attributes;
}

bool GqaInputs::EveryQuerySeesAKey() const {
  constexpr float kHidden = -5e3f;
  const auto sees = [&](int64_t element) {
    float added = 0;
    ConvertToFloat(bias.type, static_cast<const std::byte*>(bias.data) + element * element_bytes, &added, 1);
    return added > kHidden;
  };
  if (!bias.data || bias.head_stride != 0) return false;
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t past = RowTotal(b) - sequence;
    for (int64_t i = 0; i < sequence; ++i) {
      const int64_t row = b * bias.batch_stride + i * bias.query_stride;
      int64_t position = 0;
      while (position <= past + i && !sees(row + position)) ++position;
      if (position > past + i) return false;
    }
  }
  return true;
}

Status GqaAttributes::Validate(const NodeInfo& node) {
  return CheckAttributes(Of(node), node)
      .WithContext(fmt::format("node '{}': GroupQueryAttention", node.name()));
}

AttentionLimits GqaAttributes::Limits(int64_t batch, int64_t sequence, int64_t head_size, int lanes) const {
  AttentionLimits limits;
  limits.batch = batch;
  limits.q_tokens = sequence;
  limits.heads = num_heads;
  limits.kv_heads = kv_num_heads;
  limits.head_size = head_size;
  limits.value_head_size = head_size;
  limits.lanes = lanes;
  return limits;
}

Result<GqaInputs> GqaInputs::Parse(KernelContext& context, const GqaAttributes& attributes) {
  GqaInputs inputs;
  LAMINA_RETURN_IF_ERROR(ParseTokens(context, attributes, inputs));
  const bool is_bound = context.kv_view() != nullptr;
  if (!is_bound) LAMINA_RETURN_IF_ERROR(ParsePast(context, attributes, inputs));
  LAMINA_RETURN_IF_ERROR(ParseLengths(context, inputs));
  if (!is_bound) LAMINA_RETURN_IF_ERROR(CheckPast(attributes, inputs));
  LAMINA_RETURN_IF_ERROR(ParseRotary(context, attributes, inputs));
  LAMINA_RETURN_IF_ERROR(ParseExtras(context, attributes, inputs));
  return inputs;
}

}  // namespace lamina
