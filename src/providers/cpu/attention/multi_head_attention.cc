// MultiHeadAttention (com.microsoft): attention with as many key heads as query heads, in the layouts that
// ONNX Runtime's exporters write:
//   query [batch, sequence, hidden] with key and value [batch, tokens, hidden] or, from another node's cache,
//     [batch, heads, tokens, size]; query and packed key and value [batch, tokens, heads, 2, size]; or all
//     packed in query [batch, sequence, heads, 3, size]
//   bias [3 hidden] added to the projections; key_padding_mask [batch] lengths, [3 batch + 2] whose first
//     ones are lengths, or [batch, total] with 0 for padding; attention_bias [batch|1, heads|1, sequence,
//     total]; past_key and past_value [batch, heads, past, size]
#include <algorithm>
#include <cmath>
#include <memory>

#include "base/error.h"
#include "providers/cpu/attention/attention.h"
#include "providers/cpu/attention/head_tensor.h"
#include "providers/cpu/attention/kv_address.h"
#include "providers/cpu/cpu_kernels.h"
#include "providers/cpu/workspace_bounds.h"

namespace lamina {
namespace {

constexpr int kQuery = 0, kKey = 1, kValue = 2, kBias = 3, kPaddingMask = 4, kAttentionBias = 5, kPastKey = 6,
              kPastValue = 7, kPastLength = 8, kCacheIndirection = 9;
constexpr int kOutput = 0, kPresentKey = 1, kPresentValue = 2, kScores = 3;

// Workspace slots.
constexpr int kCore = 0;
constexpr int kBiased = 1;  // queries, keys and values with their bias, where no present takes them

// The run's projections: planes over the inputs.
struct Projections {
  Heads q, k, v;
  KvPlane query, key, value;
};

class MultiHeadAttention : public Kernel {
 public:
  explicit MultiHeadAttention(const NodeInfo& node)
      : isa_(ActiveIsa()),
        lanes_(WorkerLanes(node)),
        num_heads_(node.Int("num_heads", 0)),
        scale_(node.Float("scale", 0.0f)),
        mask_filter_value_(node.Float("mask_filter_value", -10000.0f)),
        causal_(node.Int("unidirectional", 0) != 0) {}

  static Status Validate(const NodeInfo& node) {
    if (node.Int("num_heads", 0) <= 0) {
      return InvalidModelError("node '{}': MultiHeadAttention: num_heads must be positive, found {}",
                               node.name(), node.Int("num_heads", 0));
    }
    if (node.HasInput(kPastLength) || node.HasInput(kCacheIndirection)) {
      return UnsupportedError(
          "node '{}': MultiHeadAttention with past_sequence_length or cache_indirection (beam search)",
          node.name());
    }
    return Status();
  }

  static Status Workspace(const NodeInfo& node, WorkspaceRequirements& requirements) {
    LAMINA_ASSIGN_OR_RETURN(const Shape query, LargestInputShape(node, kQuery));
    Shape key, value;
    if (node.HasInput(kKey)) {
      LAMINA_ASSIGN_OR_RETURN(key, LargestInputShape(node, kKey));
    }
    if (node.HasInput(kValue)) {
      LAMINA_ASSIGN_OR_RETURN(value, LargestInputShape(node, kValue));
    }
    Projections p;
    if (!Describe(query, node.HasInput(kKey) ? &key : nullptr, node.HasInput(kValue) ? &value : nullptr,
                  node.Int("num_heads", 0), p)
             .ok()) {
      return Status();  // Compute reports it
    }
    LAMINA_RETURN_IF_ERROR(requirements.Add(kCore, AttentionWorkspaceBytes(LimitsOf(p, WorkerLanes(node)))));
    if (!node.HasInput(kBias)) return Status();
    return requirements.Add(kBiased, BiasedBytes(p, DataTypeBits(node.input_type(kQuery).element) / 8));
  }
  Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                      WorkspaceRequirements& requirements) const override {
    return Workspace(node, requirements);
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(Projections p, Parse(context));
    const DataType type = context.Input(kQuery)->type();
    const AttentionLimits limits = LimitsOf(p, lanes_);
    LAMINA_ASSIGN_OR_RETURN(void* core, context.GetScratchBuffer(kCore, AttentionWorkspaceBytes(limits)));
    auto* sequences = static_cast<AttentionSequence*>(core);

    AttentionParams params;
    LAMINA_ASSIGN_OR_RETURN(params.kv, OpenCache(context, type, p, sequences));
    const int64_t total = TotalTokens(p, sequences);
    LAMINA_RETURN_IF_ERROR(ParseMasks(context, p, total, sequences, params));
    LAMINA_ASSIGN_OR_RETURN(Tensor * output,
                            context.Output(kOutput, Shape{p.q.batch, p.q.tokens, num_heads_ * p.v.size}));
    const int64_t element_bytes = DataTypeBits(type) / 8;
    params.type = type;
    params.query = p.query.base;
    params.q_token_stride = p.query.token_stride_bytes / element_bytes;
    params.q_head_stride = p.query.head_stride_bytes / element_bytes;
    params.output = output->mutable_raw_data();
    params.out_token_stride = num_heads_ * p.v.size;
    params.out_head_stride = p.v.size;
    params.heads = num_heads_;
    params.scale = scale_ != 0.0f ? scale_ : 1.0f / std::sqrt(static_cast<float>(p.q.size));
    params.window_right = causal_ ? 0 : -1;
    params.sequences = sequences;
    params.batch = p.q.batch;
    RunAttention(context.threads(), isa_, params, limits, core);

    LAMINA_ASSIGN_OR_RETURN(
        Tensor * scores, OptionalOutput(context, kScores, Shape{p.q.batch, num_heads_, p.q.tokens, total}));
    if (scores) {
      WriteAttentionScores(context.threads(), params, ScoreStage::kScaled, 0.0f, total,
                           scores->mutable_raw_data());
    }
    return Status();
  }

 private:
  static AttentionLimits LimitsOf(const Projections& p, int lanes) {
    AttentionLimits limits;
    limits.batch = p.q.batch;
    limits.q_tokens = p.q.tokens;
    limits.heads = p.q.heads;
    limits.kv_heads = p.q.heads;
    limits.head_size = p.q.size;
    limits.value_head_size = p.v.size;
    limits.lanes = lanes;
    return limits;
  }

  static size_t BiasedBytes(const Projections& p, int64_t element_bytes) {
    const auto bytes = [&](const Heads& heads) {
      return heads.batch * heads.tokens * heads.heads * heads.size;
    };
    return static_cast<size_t>((bytes(p.q) + bytes(p.k) + bytes(p.v)) * element_bytes);
  }

  // The dimensions of the three projections; strides of packed forms are set by Parse.
  static Status Describe(const Shape& query, const Shape* key, const Shape* value, int64_t heads,
                         Projections& p) {
    const auto packed = [&](const Shape& shape, int64_t parts) {
      return shape.rank() == 5 && shape[2] == heads && shape[3] == parts;
    };
    if (!key && packed(query, 3)) {
      p.q = {query[0], heads, query[1], query[4], true};
      p.k = p.v = p.q;
      return Status();
    }
    if (!key)
      return InvalidArgumentError("without key, query must be [batch, sequence, {}, 3, size], found {}",
                                  heads, query.ToString());
    LAMINA_ASSIGN_OR_RETURN(p.q, HeadsOf("query", query, heads));
    if (!value) {
      if (!packed(*key, 2)) {
        return InvalidArgumentError("without value, key must be [batch, tokens, {}, 2, size], found {}",
                                    heads, key->ToString());
      }
      p.k = {(*key)[0], heads, (*key)[1], (*key)[4], true};
      p.v = p.k;
    } else {
      LAMINA_ASSIGN_OR_RETURN(p.k, HeadsOf("key", *key, heads));
      LAMINA_ASSIGN_OR_RETURN(p.v, HeadsOf("value", *value, heads));
    }
    if (query.rank() != 3 || p.k.batch != p.q.batch || p.v.batch != p.q.batch || p.k.heads != heads ||
        p.v.heads != heads || p.k.size != p.q.size || p.k.tokens != p.v.tokens) {
      return InvalidArgumentError("query, key and value of shapes {}, {} and {} do not match for {} heads",
                                  query.ToString(), key->ToString(), value ? value->ToString() : "none",
                                  heads);
    }
    return Status();
  }

  Result<Projections> Parse(const KernelContext& context) const {
    const Tensor& query = *context.Input(kQuery);
    const Tensor* key = OptionalInput(context, kKey);
    const Tensor* value = OptionalInput(context, kValue);
    Projections p;
    LAMINA_RETURN_IF_ERROR(Describe(query.shape(), key ? &key->shape() : nullptr,
                                    value ? &value->shape() : nullptr, num_heads_, p));
    const DataType type = query.type();
    p.query = PlaneOf(p.q, query);
    if (!key) {
      PartsOf(query, type, p.q, 3, {&p.query, &p.key, &p.value});
    } else if (!value) {
      PartsOf(*key, type, p.k, 2, {&p.key, &p.value});
    } else {
      p.key = PlaneOf(p.k, *key);
      p.value = PlaneOf(p.v, *value);
    }
    return p;
  }

  // Planes of [batch, tokens, heads, parts, size].
  static void PartsOf(const Tensor& tensor, DataType type, const Heads& heads, int64_t parts,
                      std::initializer_list<KvPlane*> planes) {
    const int64_t part_bytes = heads.size * DataTypeBits(type) / 8;
    const char* data = static_cast<const char*>(tensor.raw_data());
    for (KvPlane* plane : planes) {
      *plane = PlaneOf(heads, type, data);
      plane->head_stride_bytes = parts * part_bytes;
      plane->token_stride_bytes = heads.heads * plane->head_stride_bytes;
      plane->block_stride_bytes = heads.tokens * plane->token_stride_bytes;
      data += part_bytes;
    }
  }

  static int64_t TotalTokens(const Projections& p, const AttentionSequence* sequences) {
    int64_t total = 0;
    for (int64_t b = 0; b < p.q.batch; ++b) total = std::max(total, sequences[b].kv_tokens);
    return total;
  }

  Result<KvView> OpenCache(KernelContext& context, DataType type, Projections& p,
                           AttentionSequence* sequences) const {
    const Tensor* bias = OptionalInput(context, kBias);
    const int64_t element_bytes = DataTypeBits(type) / 8;
    const char* biases[3] = {};
    char* biased = nullptr;
    if (bias) {
      const int64_t hidden = num_heads_ * p.q.size;
      if (bias->shape() != Shape{2 * hidden + num_heads_ * p.v.size}) {
        return InvalidArgumentError("bias must have shape [{}], found {}", 2 * hidden + num_heads_ * p.v.size,
                                    bias->shape().ToString());
      }
      const char* data = static_cast<const char*>(bias->raw_data());
      for (int i = 0; i < 3; ++i) biases[i] = data + i * hidden * element_bytes;
      LAMINA_ASSIGN_OR_RETURN(void* memory, context.GetScratchBuffer(kBiased, BiasedBytes(p, element_bytes)));
      biased = static_cast<char*>(memory);
      AddBias(context.threads(), type, biases[0], p.q, p.query, biased);
    }

    const KvView* bound = context.kv_view();
    const Tensor* past_key = OptionalInput(context, kPastKey);
    const Tensor* past_value = OptionalInput(context, kPastValue);
    int64_t past = 0;
    if (!bound) {
      LAMINA_ASSIGN_OR_RETURN(past, PastTokens(p, past_key, past_value));
    }
    const int64_t total = past + p.k.tokens;
    for (int64_t b = 0; b < p.q.batch; ++b) {
      const int64_t row_past = bound ? bound->past_lengths[b] : past;
      const int64_t keys = row_past + p.k.tokens;
      sequences[b] = {b * p.q.tokens, p.q.tokens, keys, bound ? row_past : total - p.q.tokens};
      if (bound && (row_past < 0 || keys > bound->capacity_tokens)) {
        return InvalidArgumentError(
            "sequence {}: {} past tokens and {} of this run exceed the KV cache's capacity of {}", b,
            row_past, p.k.tokens, bound->capacity_tokens);
      }
    }
    if (bound) {
      if (bound->type != type || bound->key.head_size != p.k.size || bound->value.head_size != p.v.size) {
        return UnsupportedError(
            "the KV cache holds {} heads of {} and {}, the attention node {} of {} and {}",
            DataTypeName(bound->type), bound->key.head_size, bound->value.head_size, DataTypeName(type),
            p.k.size, p.v.size);
      }
      AppendTokens(context.threads(), p.key, p.k, *bound, bound->key, sequences, biases[1]);
      AppendTokens(context.threads(), p.value, p.v, *bound, bound->value, sequences, biases[2]);
      return *bound;
    }

    LAMINA_ASSIGN_OR_RETURN(
        Tensor * present_key,
        OptionalOutput(context, kPresentKey, Shape{p.k.batch, num_heads_, total, p.k.size}));
    LAMINA_ASSIGN_OR_RETURN(
        Tensor * present_value,
        OptionalOutput(context, kPresentValue, Shape{p.v.batch, num_heads_, total, p.v.size}));
    if (past > 0 && (!present_key || !present_value)) {
      return UnsupportedError("a past without present_key and present_value outputs");
    }
    Complete(context.threads(), type, past_key, past, present_key, biases[1], p.k, p.key, biased);
    Complete(context.threads(), type, past_value, past, present_value, biases[2], p.v, p.value, biased);
    return ContiguousKv(p.key, p.value, type, num_heads_, total);
  }

  // Makes `plane` hold past and run with their bias: in present, in `biased` (moved on behind what it
  // takes), or the input as it is.
  static void Complete(ThreadPool& threads, DataType type, const Tensor* past, int64_t past_tokens,
                       Tensor* present, const char* bias, const Heads& heads, KvPlane& plane, char*& biased) {
    if (present) {
      const KvPlane target = PlaneOfHeads(present->mutable_raw_data(), type, heads.heads,
                                          past_tokens + heads.tokens, heads.size);
      ConcatenateTokens(threads, past, past_tokens, plane, heads, target, type, bias);
      plane = target;
    } else if (bias) {
      AddBias(threads, type, bias, heads, plane, biased);
    }
  }

  // Copies a projection with its bias to `memory`, moves `plane` there and `memory` behind it.
  static void AddBias(ThreadPool& threads, DataType type, const char* bias, const Heads& heads,
                      KvPlane& plane, char*& memory) {
    const KvPlane target = PlaneOfTokens(memory, type, heads.heads, heads.tokens, heads.size);
    ConcatenateTokens(threads, nullptr, 0, plane, heads, target, type, bias);
    memory += heads.batch * target.block_stride_bytes;
    plane = target;
  }

  Result<int64_t> PastTokens(const Projections& p, const Tensor* past_key, const Tensor* past_value) const {
    if ((past_key == nullptr) != (past_value == nullptr)) {
      return InvalidArgumentError("past_key and past_value must be both present or both absent");
    }
    if (!past_key) return int64_t{0};
    const int64_t past = past_key->shape().rank() == 4 ? past_key->shape()[2] : 0;
    const Shape key_shape{p.k.batch, num_heads_, past, p.k.size};
    const Shape value_shape{p.v.batch, num_heads_, past, p.v.size};
    if (past_key->shape() != key_shape || past_value->shape() != value_shape) {
      return InvalidArgumentError("past_key and past_value must have shapes {} and {}, found {} and {}",
                                  key_shape.ToString(), value_shape.ToString(), past_key->shape().ToString(),
                                  past_value->shape().ToString());
    }
    return past;
  }

  Status ParseMasks(const KernelContext& context, const Projections& p, int64_t total,
                    AttentionSequence* sequences, AttentionParams& params) const {
    if (const Tensor* mask = OptionalInput(context, kPaddingMask)) {
      const int64_t batch = p.q.batch;
      if (mask->shape() == Shape{batch} || mask->shape() == Shape{3 * batch + 2}) {
        for (int64_t b = 0; b < batch; ++b) {
          sequences[b].kv_tokens = std::clamp<int64_t>(mask->data<int32_t>()[b], 0, sequences[b].kv_tokens);
        }
      } else if (mask->shape() == Shape{batch, total} || mask->shape() == Shape{batch, p.q.tokens, total}) {
        AttentionBias& bias = params.biases[0];
        bias.data = mask->raw_data();
        bias.type = DataType::kInt32;
        bias.masked = mask_filter_value_;
        bias.key_stride = 1;
        bias.query_stride = mask->shape().rank() == 3 ? total : 0;
        bias.batch_stride = mask->shape().rank() == 3 ? p.q.tokens * total : total;
        bias.keys = total;
      } else {
        return InvalidArgumentError(
            "key_padding_mask must have shape [{}], [{}], [{},{}] or [{},{},{}], found {}", batch,
            3 * batch + 2, batch, total, batch, p.q.tokens, total, mask->shape().ToString());
      }
    }
    if (const Tensor* attention_bias = OptionalInput(context, kAttentionBias)) {
      const Shape& shape = attention_bias->shape();
      const bool fits = shape.rank() == 4 && (shape[0] == 1 || shape[0] == p.q.batch) &&
                        (shape[1] == 1 || shape[1] == num_heads_) && shape[2] == p.q.tokens &&
                        shape[3] == total;
      if (!fits) {
        return InvalidArgumentError("attention_bias must have shape [{}|1,{}|1,{},{}], found {}", p.q.batch,
                                    num_heads_, p.q.tokens, total, shape.ToString());
      }
      AttentionBias& bias = params.biases[1];
      bias.data = attention_bias->raw_data();
      bias.type = attention_bias->type();
      bias.keys = total;
      bias.key_stride = 1;
      bias.query_stride = total;
      bias.head_stride = shape[1] == 1 ? 0 : p.q.tokens * total;
      bias.batch_stride = shape[0] == 1 ? 0 : shape[1] * p.q.tokens * total;
    }
    return Status();
  }

  CpuIsa isa_;
  int lanes_;
  int64_t num_heads_;
  float scale_;
  float mask_filter_value_;
  bool causal_;
};

}  // namespace

void RegisterMultiHeadAttention(KernelRegistry& registry) {
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16}) {
    KernelDef def("MultiHeadAttention", kMsDomain);
    for (const int i : {kQuery, kKey, kValue, kBias, kAttentionBias, kPastKey, kPastValue})
      def.Input(i, type);
    def.Input(kPaddingMask, DataType::kInt32);
    for (const int i : {kOutput, kPresentKey, kPresentValue, kScores}) def.Output(i, type);
    def.KvCache(kPastKey, kPastValue, kPresentKey, kPresentValue);
    registry.Add(std::move(def), CreateKernel<MultiHeadAttention>, EstimateWorkspace<MultiHeadAttention>);
  }
}

}  // namespace lamina
