// MultiHeadAttention (com.microsoft): attention with as many key heads as query heads, in the layouts that
// ONNX Runtime's exporters write:
//   query [batch, sequence, hidden] with key and value [batch, tokens, hidden] or, from another node's cache,
//     [batch, heads, tokens, size]; query and packed key and value [batch, tokens, heads, 2, size]; or all
//     packed in query [batch, sequence, heads, 3, size]
//   bias [3 hidden] added to the projections; key_padding_mask [batch] lengths, [3 batch + 2] whose first
//     ones are lengths, or [batch, total] with 0 for padding; attention_bias [batch|1, heads|1, sequence,
//     total]; past_key and past_value [batch, heads, past, size]
#include <algorithm>
#include <memory>

#include "base/error.h"
#include "providers/cpu/attention/attention.h"
#include "providers/cpu/attention/head_tensor.h"
#include "providers/cpu/attention/kv_address.h"
#include "providers/cpu/attention/multi_head.h"
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

class MultiHeadAttention : public Kernel {
 public:
  explicit MultiHeadAttention(const NodeInfo& node)
      : isa_(ActiveIsa()), lanes_(WorkerLanes(node)), attributes_(node) {}

  static Status Validate(const NodeInfo& node) {
    LAMINA_RETURN_IF_ERROR(MultiHeadAttributes::Validate(node));
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
    return requirements.Add(kBiased, p.TotalBytes(node.input_type(kQuery).element));
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

    LAMINA_ASSIGN_OR_RETURN(const KvView kv, OpenCache(context, type, p, sequences));
    const int64_t total = TotalTokens(p, sequences);
    const Shape output_shape{p.q.batch, p.q.tokens, p.v.heads * p.v.size};
    LAMINA_ASSIGN_OR_RETURN(Tensor * output, context.Output(kOutput, output_shape));
    AttentionParams params = ParamsOf(attributes_, p, type, sequences, *output);
    params.kv = kv;
    LAMINA_RETURN_IF_ERROR(ParseMasks(context, p, total, sequences, params));
    RunAttention(context.threads(), isa_, params, limits, core);

    LAMINA_ASSIGN_OR_RETURN(Tensor * scores,
                            OptionalOutput(context, kScores, Shape{p.q.batch, p.q.heads, p.q.tokens, total}));
    if (scores) {
      WriteAttentionScores(context.threads(), params, ScoreStage::kScaled, 0.0f, total,
                           scores->mutable_raw_data());
    }
    return Status();
  }

 private:
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
    if (!key) {
      return InvalidArgumentError("without key, query must be [batch, sequence, {}, 3, size], found {}",
                                  heads, query.ToString());
    }
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
                                    value ? &value->shape() : nullptr, attributes_.num_heads, p));
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
    ProjectionBias bias;
    char* biased = nullptr;
    if (const Tensor* tensor = OptionalInput(context, kBias)) {
      LAMINA_ASSIGN_OR_RETURN(bias, SplitBias(*tensor, p));
      LAMINA_ASSIGN_OR_RETURN(void* memory, context.GetScratchBuffer(kBiased, p.TotalBytes(type)));
      biased = static_cast<char*>(memory);
      AddBiasToHeads(context.threads(), type, bias.q, p.q, p.query, biased);
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
      AppendTokens(context.threads(), p.key, p.k, *bound, bound->key, sequences, bias.k);
      AppendTokens(context.threads(), p.value, p.v, *bound, bound->value, sequences, bias.v);
      return *bound;
    }

    LAMINA_ASSIGN_OR_RETURN(
        Tensor * present_key,
        OptionalOutput(context, kPresentKey, Shape{p.k.batch, p.k.heads, total, p.k.size}));
    LAMINA_ASSIGN_OR_RETURN(
        Tensor * present_value,
        OptionalOutput(context, kPresentValue, Shape{p.v.batch, p.v.heads, total, p.v.size}));
    if (past > 0 && (!present_key || !present_value)) {
      return UnsupportedError("a past without present_key and present_value outputs");
    }
    Complete(context.threads(), type, past_key, past, present_key, bias.k, p.k, p.key, biased);
    Complete(context.threads(), type, past_value, past, present_value, bias.v, p.v, p.value, biased);
    return ContiguousKv(p.key, p.value, type, p.k.heads, total);
  }

  // Makes `plane` hold past and run with their bias: in present, in `biased` (moved on behind what it
  // takes), or the input as it is.
  static void Complete(ThreadPool& threads, DataType type, const Tensor* past, int64_t past_tokens,
                       Tensor* present, const char* bias, const Heads& heads, KvPlane& plane, char*& biased) {
    if (present) {
      const KvPlane target = PlaneOfHeads(present->mutable_raw_data(), type, heads.heads,
                                          past_tokens + heads.tokens, heads.size);
      ConcatenateTokens(threads, past ? past->raw_data() : nullptr, past_tokens, plane, heads, target, type,
                        bias);
      plane = target;
    } else if (bias) {
      AddBiasToHeads(threads, type, bias, heads, plane, biased);
    }
  }

  static Result<int64_t> PastTokens(const Projections& p, const Tensor* past_key, const Tensor* past_value) {
    if ((past_key == nullptr) != (past_value == nullptr)) {
      return InvalidArgumentError("past_key and past_value must be both present or both absent");
    }
    if (!past_key) return int64_t{0};
    const int64_t past = past_key->shape().rank() == 4 ? past_key->shape()[2] : 0;
    const Shape key_shape{p.k.batch, p.k.heads, past, p.k.size};
    const Shape value_shape{p.v.batch, p.v.heads, past, p.v.size};
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
      } else {
        LAMINA_ASSIGN_OR_RETURN(params.biases[0], KeyMask(*mask, p, total, attributes_.mask_filter_value));
      }
    }
    if (const Tensor* attention_bias = OptionalInput(context, kAttentionBias)) {
      LAMINA_ASSIGN_OR_RETURN(params.biases[1], ScoreBias(*attention_bias, p, total));
    }
    return Status();
  }

  CpuIsa isa_;
  int lanes_;
  MultiHeadAttributes attributes_;
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
