// DecoderMaskedMultiHeadAttention (com.microsoft): one token of each sequence attends to its cache.
//   query [batch, 1, hidden] with key and value likewise, or all three in query [batch, 1, q | k | v]; or,
//   for
//     cross attention (no past), key and value [batch, heads, tokens, size] of another node
//   past and present [batch, heads, capacity, size], one buffer (past_present_share_buffer) of which
//     past_sequence_length tokens are valid
//   mask_index [batch, total] with 0 for hidden keys; attention_bias [batch|1, heads|1, 1, total]; bias
//   [q|k|v]
// In beam search (beam_width > 1) the batch is [groups, beam_width], and cache_indirection
// [groups, beam_width, capacity] says in which beam's cache a past token of a beam lies.
#include <algorithm>
#include <limits>
#include <memory>

#include "base/error.h"
#include "provider/kernel_registry.h"
#include "providers/cpu/attention/kv_address.h"
#include "providers/cpu/attention/multi_head.h"
#include "providers/cpu/cpu_kernels.h"
#include "providers/cpu/kernel_util.h"
#include "providers/cpu/workspace_bounds.h"

namespace lamina {
namespace {

constexpr int kQuery = 0, kKey = 1, kValue = 2, kMask = 3, kAttentionBias = 4, kPastKey = 5, kPastValue = 6,
              kPastLength = 7, kBeamWidth = 8, kCacheIndirection = 9, kBias = 10;
constexpr int kOutput = 0, kPresentKey = 1, kPresentValue = 2, kScores = 3;

// Workspace slots.
constexpr int kCore = 0;
constexpr int kBiasedQuery = 1;  // [batch, hidden]
constexpr int kBlockTable = 2;   // [batch, capacity] where past tokens of beams lie

class DecoderMaskedAttention : public Kernel {
 public:
  explicit DecoderMaskedAttention(const NodeInfo& node)
      : isa_(ActiveIsa()),
        lanes_(WorkerLanes(node)),
        type_(node.input_type(kQuery).element),
        attributes_(node) {
    attributes_.causal = false;  // the one query is the last token
  }

  static Status Validate(const NodeInfo& node) {
    LAMINA_RETURN_IF_ERROR(MultiHeadAttributes::Validate(node));
    if (node.HasInput(kPastKey) != node.HasInput(kPastValue)) {
      return InvalidModelError("node '{}': past_key and past_value must be given together", node.name());
    }
    if (node.HasInput(kPastKey) && node.Int("past_present_share_buffer", 0) == 0) {
      return UnsupportedError(
          "node '{}': DecoderMaskedMultiHeadAttention with a past of its own; only "
          "past_present_share_buffer=1 is defined",
          node.name());
    }
    return Status();
  }

  static Status Workspace(const NodeInfo& node, WorkspaceRequirements& requirements) {
    LAMINA_ASSIGN_OR_RETURN(const Shape query, LargestInputShape(node, kQuery));
    Shape key, value, past;
    const auto read = [&](int input, Shape& shape) -> Status {
      if (!node.HasInput(input)) return Status();
      LAMINA_ASSIGN_OR_RETURN(shape, LargestInputShape(node, input));
      return Status();
    };
    LAMINA_RETURN_IF_ERROR(read(kKey, key));
    LAMINA_RETURN_IF_ERROR(read(kValue, value));
    LAMINA_RETURN_IF_ERROR(read(kPastKey, past));
    Projections p;
    if (!Describe(query, node.HasInput(kKey) ? &key : nullptr, node.HasInput(kValue) ? &value : nullptr,
                  node.Int("num_heads", 0), p)
             .ok()) {
      return Status();  // Compute reports it
    }
    LAMINA_RETURN_IF_ERROR(requirements.Add(kCore, AttentionWorkspaceBytes(LimitsOf(p, WorkerLanes(node)))));
    if (node.HasInput(kBias)) {
      LAMINA_RETURN_IF_ERROR(requirements.Add(kBiasedQuery, QueryBytes(p, node.input_type(kQuery).element)));
    }
    if (!node.HasInput(kCacheIndirection) || past.rank() != 4) return Status();
    return requirements.Add(kBlockTable, static_cast<size_t>(past[0] * past[2]) * sizeof(int32_t));
  }
  Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                      WorkspaceRequirements& requirements) const override {
    return Workspace(node, requirements);
  }

  Status Compute(KernelContext& context) const override {
    const Tensor& query = *context.Input(kQuery);
    const Tensor* key = OptionalInput(context, kKey);
    const Tensor* value = OptionalInput(context, kValue);
    Projections p;
    LAMINA_RETURN_IF_ERROR(Describe(query.shape(), key ? &key->shape() : nullptr,
                                    value ? &value->shape() : nullptr, attributes_.num_heads, p));
    if (key) {
      p.query = PlaneOf(p.q, query);
      p.key = PlaneOf(p.k, *key);
      p.value = PlaneOf(p.v, *value);
    } else {
      p.SetPlanesOfRows(type_, query.raw_data());
    }
    ProjectionBias bias;
    if (const Tensor* tensor = OptionalInput(context, kBias)) {
      LAMINA_ASSIGN_OR_RETURN(bias, SplitBias(*tensor, p));
      LAMINA_ASSIGN_OR_RETURN(void* memory, context.GetScratchBuffer(kBiasedQuery, QueryBytes(p, type_)));
      char* biased = static_cast<char*>(memory);
      AddBiasToHeads(context.threads(), type_, bias.q, p.q, p.query, biased);
    }
    const AttentionLimits limits = LimitsOf(p, lanes_);
    LAMINA_ASSIGN_OR_RETURN(void* core, context.GetScratchBuffer(kCore, AttentionWorkspaceBytes(limits)));
    auto* sequences = static_cast<AttentionSequence*>(core);
    LAMINA_ASSIGN_OR_RETURN(Tensor * output,
                            context.Output(kOutput, Shape{p.q.batch, 1, p.v.heads * p.v.size}));
    AttentionParams params = ParamsOf(attributes_, p, type_, sequences, *output);
    if (OptionalInput(context, kPastKey)) {
      LAMINA_ASSIGN_OR_RETURN(params.kv, AppendToPast(context, p, bias, sequences));
    } else {
      // Keys and values of another node: they have their bias.
      params.kv = ContiguousKv(p.key, p.value, type_, p.k.heads, p.k.tokens);
      for (int64_t b = 0; b < p.q.batch; ++b) sequences[b] = {b, 1, p.k.tokens, p.k.tokens - 1};
    }
    const int64_t total = p.q.batch > 0 ? sequences[0].kv_tokens : 0;
    if (const Tensor* mask = OptionalInput(context, kMask)) {
      LAMINA_ASSIGN_OR_RETURN(params.biases[0], KeyMask(*mask, p, total, attributes_.mask_filter_value));
    }
    if (const Tensor* attention_bias = OptionalInput(context, kAttentionBias)) {
      LAMINA_ASSIGN_OR_RETURN(params.biases[1], ScoreBias(*attention_bias, p, total));
    }
    RunAttention(context.threads(), isa_, params, limits, core);

    LAMINA_ASSIGN_OR_RETURN(Tensor * scores,
                            OptionalOutput(context, kScores, Shape{p.q.batch, p.q.heads, 1, total}));
    if (scores) {
      WriteAttentionScores(context.threads(), params, ScoreStage::kMasked, attributes_.mask_filter_value,
                           total, scores->mutable_raw_data());
    }
    return Status();
  }

 private:
  static size_t QueryBytes(const Projections& p, DataType type) {
    return static_cast<size_t>(p.q.batch * p.q.heads * p.q.size * DataTypeBits(type) / 8);
  }

  static Status Describe(const Shape& query, const Shape* key, const Shape* value, int64_t heads,
                         Projections& p) {
    if (query.rank() != 3 || query[1] != 1) {
      return InvalidArgumentError("query must hold one token, [batch, 1, hidden], found {}",
                                  query.ToString());
    }
    if ((key == nullptr) != (value == nullptr)) {
      return InvalidArgumentError("key and value must be both present or both absent");
    }
    if (!key) {
      if (query[2] % (3 * heads) != 0) {
        return InvalidArgumentError("query of shape {} does not hold Q, K and V of {} heads",
                                    query.ToString(), heads);
      }
      p.q = {query[0], heads, 1, query[2] / (3 * heads), true};
      p.k = p.v = p.q;
      return Status();
    }
    LAMINA_ASSIGN_OR_RETURN(p.q, HeadsOf("query", query, heads));
    LAMINA_ASSIGN_OR_RETURN(p.k, HeadsOf("key", *key, heads));
    LAMINA_ASSIGN_OR_RETURN(p.v, HeadsOf("value", *value, heads));
    if (p.k.batch != p.q.batch || p.v.batch != p.q.batch || p.k.heads != heads || p.v.heads != heads ||
        p.k.size != p.q.size || p.k.tokens != p.v.tokens) {
      return InvalidArgumentError("query, key and value of shapes {}, {} and {} do not match for {} heads",
                                  query.ToString(), key->ToString(), value->ToString(), heads);
    }
    return Status();
  }

  Result<KvView> AppendToPast(KernelContext& context, const Projections& p, const ProjectionBias& bias,
                              AttentionSequence* sequences) const {
    const Tensor& past_key = *context.Input(kPastKey);
    const Tensor& past_value = *context.Input(kPastValue);
    const int64_t capacity = past_key.shape().rank() == 4 ? past_key.shape()[2] : 0;
    const Shape key_shape{p.k.batch, p.k.heads, capacity, p.k.size};
    const Shape value_shape{p.v.batch, p.v.heads, capacity, p.v.size};
    if (past_key.shape() != key_shape || past_value.shape() != value_shape || p.k.tokens != 1) {
      return InvalidArgumentError(
          "past_key and past_value must have shapes {} and {} beside one token of this run, found {} and {}",
          key_shape.ToString(), value_shape.ToString(), past_key.shape().ToString(),
          past_value.shape().ToString());
    }
    LAMINA_ASSIGN_OR_RETURN(const Tensor* length, RequireInput(context, kPastLength));
    LAMINA_ASSIGN_OR_RETURN(const int64_t past, ReadInt(*length));
    if (past < 0 || past >= capacity) {
      return InvalidArgumentError("{} past tokens and one of this run do not fit a past of {}", past,
                                  capacity);
    }
    for (int64_t b = 0; b < p.q.batch; ++b) sequences[b] = {b, 1, past + 1, past};

    KvPlane planes[2];
    for (const bool is_key : {true, false}) {
      const Tensor& tensor = is_key ? past_key : past_value;
      LAMINA_ASSIGN_OR_RETURN(Tensor * present,
                              OptionalOutput(context, is_key ? kPresentKey : kPresentValue, tensor.shape()));
      if (!present) return InvalidArgumentError("a past without the outputs present_key and present_value");
      if (!tensor.SharesMemoryWith(*present)) {
        CopyElements(type_, tensor.raw_data(), present->mutable_raw_data(), tensor.num_elements());
      }
      const Heads& heads = is_key ? p.k : p.v;
      planes[is_key ? 0 : 1] =
          PlaneOfHeads(present->mutable_raw_data(), type_, heads.heads, capacity, heads.size);
    }
    KvView view = ContiguousKv(planes[0], planes[1], type_, p.k.heads, capacity);
    AppendTokens(context.threads(), p.key, p.k, view, view.key, sequences, bias.k);
    AppendTokens(context.threads(), p.value, p.v, view, view.value, sequences, bias.v);
    LAMINA_RETURN_IF_ERROR(FollowBeams(context, p, past, capacity, view));
    return view;
  }

  // Makes the view read each past token from the beam that wrote it: blocks of one token.
  Status FollowBeams(KernelContext& context, const Projections& p, int64_t past, int64_t capacity,
                     KvView& view) const {
    const Tensor* width = OptionalInput(context, kBeamWidth);
    const Tensor* indirection = OptionalInput(context, kCacheIndirection);
    int64_t beams = 1;
    if (width) {
      LAMINA_ASSIGN_OR_RETURN(beams, ReadInt(*width));
    }
    if (beams <= 1) return Status();
    const int64_t batch = p.q.batch;
    if (batch % beams != 0) {
      return InvalidArgumentError("a batch of {} does not hold groups of {} beams", batch, beams);
    }
    if (!indirection || indirection->shape() != Shape{batch / beams, beams, capacity}) {
      return InvalidArgumentError("cache_indirection must have shape [{},{},{}], found {}", batch / beams,
                                  beams, capacity, indirection ? indirection->shape().ToString() : "nothing");
    }
    if (p.k.heads * capacity * batch > std::numeric_limits<int32_t>::max()) {
      return UnsupportedError("a cache of {} sequences, {} heads and {} tokens in beam search", batch,
                              p.k.heads, capacity);
    }
    LAMINA_ASSIGN_OR_RETURN(int32_t * blocks, GetScratch<int32_t>(context, kBlockTable, batch * capacity));
    const int32_t* source = indirection->data<int32_t>();
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t t = 0; t <= past; ++t) {
        const int64_t beam = t == past ? b % beams : source[b * capacity + t];
        if (beam < 0 || beam >= beams) {
          return InvalidArgumentError("cache_indirection names beam {} of {}", beam, beams);
        }
        const int64_t row = b / beams * beams + beam;
        blocks[b * capacity + t] = static_cast<int32_t>(row * p.k.heads * capacity + t);
      }
    }
    view.key.block_stride_bytes = view.key.token_stride_bytes;
    view.value.block_stride_bytes = view.value.token_stride_bytes;
    view.block_tokens = 1;
    view.block_table = blocks;
    view.blocks_per_sequence = static_cast<int32_t>(capacity);
    return Status();
  }

  CpuIsa isa_;
  int lanes_;
  DataType type_;
  MultiHeadAttributes attributes_;
};

}  // namespace

void RegisterDecoderMaskedAttention(KernelRegistry& registry) {
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16}) {
    KernelDef def("DecoderMaskedMultiHeadAttention", kMsDomain);
    for (const int i : {kQuery, kKey, kValue, kAttentionBias, kPastKey, kPastValue, kBias})
      def.Input(i, type);
    for (const int i : {kMask, kPastLength, kBeamWidth, kCacheIndirection}) def.Input(i, DataType::kInt32);
    for (const int i : {kPastLength, kBeamWidth, kCacheIndirection}) def.HostInput(i);
    for (const int i : {kOutput, kPresentKey, kPresentValue, kScores}) def.Output(i, type);
    def.MayInplace(kPastKey, kPresentKey).MayInplace(kPastValue, kPresentValue);
    registry.Add(std::move(def), CreateKernel<DecoderMaskedAttention>,
                 EstimateWorkspace<DecoderMaskedAttention>);
  }
}

}  // namespace lamina
