// Attention (ai.onnx 23, 24 and 25): queries, keys and values as [batch, heads, sequence, size] or
// [batch, sequence, heads * size], with a mask, a past that is concatenated, or (24) a cache of the caller's
// with its lengths in nonpad_kv_seqlen.
//
// Causal attention and windows are aligned at the end of the keys: query i stands at position offset + i with
// offset = past length, or nonpad_kv_seqlen - sequence, else 0.
#include <algorithm>
#include <cmath>
#include <memory>

#include "providers/cpu/attention/attention.h"
#include "providers/cpu/attention/head_tensor.h"
#include "providers/cpu/attention/kv_address.h"
#include "providers/cpu/cpu_kernels.h"
#include "providers/cpu/workspace_bounds.h"

namespace lamina {
namespace {

constexpr int kQ = 0, kK = 1, kV = 2, kMask = 3, kPastKey = 4, kPastValue = 5, kNonpadLengths = 6;
constexpr int kY = 0, kPresentKey = 1, kPresentValue = 2, kScores = 3;

constexpr int kCore = 0;  // workspace slot of the attention core

struct Shapes {
  Heads q, k, v;
  int64_t past = 0;
  int64_t total = 0;
};

class OnnxAttention : public Kernel {
 public:
  explicit OnnxAttention(const NodeInfo& node)
      : isa_(ActiveIsa()),
        lanes_(WorkerLanes(node)),
        q_num_heads_(node.Int("q_num_heads", 0)),
        kv_num_heads_(node.Int("kv_num_heads", 0)),
        scale_(node.Float("scale", 0.0f)),
        softcap_(node.Float("softcap", 0.0f)),
        causal_(node.Int("is_causal", 0) != 0),
        scores_mode_(node.Int("qk_matmul_output_mode", 0)),
        window_left_(node.Int("left_window_size", -1)),
        window_right_(node.Int("right_window_size", -1)) {}

  static Status Validate(const NodeInfo& node) {
    const auto check = [&]() -> Status {
      const int64_t mode = node.Int("qk_matmul_output_mode", 0);
      if (mode < 0 || mode > 3)
        return InvalidModelError("qk_matmul_output_mode must be 0 to 3, found {}", mode);
      if (node.Int("left_window_size", -1) < -1 || node.Int("right_window_size", -1) < -1) {
        return InvalidModelError("window sizes must be -1 or more, found {} and {}",
                                 node.Int("left_window_size", -1), node.Int("right_window_size", -1));
      }
      if (node.Float("softcap", 0.0f) < 0.0f) {
        return InvalidModelError("softcap must not be negative, found {}", node.Float("softcap", 0.0f));
      }
      return Status();
    };
    return check().WithContext(fmt::format("node '{}': Attention", node.name()));
  }

  static Status Workspace(const NodeInfo& node, WorkspaceRequirements& requirements) {
    LAMINA_ASSIGN_OR_RETURN(const Shape q_shape, LargestInputShape(node, kQ));
    LAMINA_ASSIGN_OR_RETURN(const Shape v_shape, LargestInputShape(node, kV));
    const Result<Heads> q = HeadsOf("Q", q_shape, node.Int("q_num_heads", 0));
    const Result<Heads> v = HeadsOf("V", v_shape, node.Int("kv_num_heads", 0));
    if (!q.ok() || !v.ok()) return Status();  // Compute reports it
    return requirements.Add(kCore, AttentionWorkspaceBytes(LimitsOf(*q, *v, WorkerLanes(node))));
  }
  Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                      WorkspaceRequirements& requirements) const override {
    return Workspace(node, requirements);
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Shapes shapes, ParseShapes(context));
    const AttentionLimits limits = LimitsOf(shapes.q, shapes.v, lanes_);
    LAMINA_ASSIGN_OR_RETURN(void* core, context.GetScratchBuffer(kCore, AttentionWorkspaceBytes(limits)));
    auto* sequences = static_cast<AttentionSequence*>(core);

    const Tensor& q = *context.Input(kQ);
    AttentionParams params;
    LAMINA_ASSIGN_OR_RETURN(params.kv, OpenCache(context, shapes, sequences));
    LAMINA_ASSIGN_OR_RETURN(params.biases[0], ParseMask(context, shapes));
    const Shape y_shape = shapes.q.by_token
                              ? Shape{shapes.q.batch, shapes.q.tokens, shapes.q.heads * shapes.v.size}
                              : Shape{shapes.q.batch, shapes.q.heads, shapes.q.tokens, shapes.v.size};
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(kY, y_shape));
    params.type = q.type();
    params.heads = shapes.q.heads;
    params.scale = scale_ != 0.0f ? scale_ : 1.0f / std::sqrt(static_cast<float>(shapes.q.size));
    params.softcap = softcap_;
    params.window_left = window_left_;
    params.window_right = window_right_;
    if (causal_) params.window_right = window_right_ < 0 ? 0 : std::min<int64_t>(window_right_, 0);
    params.sequences = sequences;
    params.batch = shapes.q.batch;

    // Where heads lie outside tokens, a "token" of the core is a row of one head, and a sequence begins
    // heads * tokens of them after the one before it.
    params.query = q.raw_data();
    params.output = y->mutable_raw_data();
    params.q_token_stride = shapes.q.by_token ? shapes.q.heads * shapes.q.size : shapes.q.size;
    params.q_head_stride = shapes.q.by_token ? shapes.q.size : shapes.q.tokens * shapes.q.size;
    params.out_token_stride = shapes.q.by_token ? shapes.q.heads * shapes.v.size : shapes.v.size;
    params.out_head_stride = shapes.q.by_token ? shapes.v.size : shapes.q.tokens * shapes.v.size;
    RunAttention(context.threads(), isa_, params, limits, core);
    return WriteScores(context, shapes, params);
  }

 private:
  static AttentionLimits LimitsOf(const Heads& q, const Heads& v, int lanes) {
    AttentionLimits limits;
    limits.batch = q.batch;
    limits.q_tokens = q.tokens;
    limits.heads = q.heads;
    limits.kv_heads = v.heads;
    limits.head_size = q.size;
    limits.value_head_size = v.size;
    limits.lanes = lanes;
    return limits;
  }

  Result<Shapes> ParseShapes(const KernelContext& context) const {
    Shapes shapes;
    LAMINA_ASSIGN_OR_RETURN(shapes.q, HeadsOf("Q", context.Input(kQ)->shape(), q_num_heads_));
    LAMINA_ASSIGN_OR_RETURN(shapes.k, HeadsOf("K", context.Input(kK)->shape(), kv_num_heads_));
    LAMINA_ASSIGN_OR_RETURN(shapes.v, HeadsOf("V", context.Input(kV)->shape(), kv_num_heads_));
    const Heads &q = shapes.q, &k = shapes.k, &v = shapes.v;
    if (k.batch != q.batch || v.batch != q.batch || k.heads != v.heads || k.tokens != v.tokens ||
        k.size != q.size) {
      return InvalidArgumentError(
          "Q, K and V of shapes {}, {} and {} do not match", context.Input(kQ)->shape().ToString(),
          context.Input(kK)->shape().ToString(), context.Input(kV)->shape().ToString());
    }
    if (k.heads == 0 || q.heads % k.heads != 0) {
      return InvalidArgumentError("{} query heads are no multiple of {} key heads", q.heads, k.heads);
    }
    const Tensor* past_key = OptionalInput(context, kPastKey);
    const Tensor* past_value = OptionalInput(context, kPastValue);
    if (!context.kv_view()) {
      if ((past_key == nullptr) != (past_value == nullptr)) {
        return InvalidArgumentError("past_key and past_value must be both present or both absent");
      }
      if (past_key && OptionalInput(context, kNonpadLengths)) {
        return InvalidArgumentError("past_key and nonpad_kv_seqlen exclude each other");
      }
      if (past_key) {
        shapes.past = past_key->shape().rank() == 4 ? past_key->shape()[2] : 0;
        const Shape key_shape{k.batch, k.heads, shapes.past, k.size};
        const Shape value_shape{k.batch, k.heads, shapes.past, v.size};
        if (past_key->shape() != key_shape || past_value->shape() != value_shape) {
          return InvalidArgumentError("past_key and past_value must have shapes {} and {}, found {} and {}",
                                      key_shape.ToString(), value_shape.ToString(),
                                      past_key->shape().ToString(), past_value->shape().ToString());
        }
      }
    } else {
      const int32_t* lengths = context.kv_view()->past_lengths;
      for (int64_t b = 0; b < q.batch; ++b) shapes.past = std::max<int64_t>(shapes.past, lengths[b]);
    }
    shapes.total = shapes.past + k.tokens;
    return shapes;
  }

  // Keys and values as the core reads them; fills the sequences.
  Result<KvView> OpenCache(KernelContext& context, const Shapes& shapes, AttentionSequence* sequences) const {
    const Tensor& k = *context.Input(kK);
    const Tensor& v = *context.Input(kV);
    const DataType type = k.type();
    const int64_t rows_of_a_sequence = shapes.q.by_token ? shapes.q.tokens : shapes.q.tokens * shapes.q.heads;
    for (int64_t b = 0; b < shapes.q.batch; ++b) {
      sequences[b] = {b * rows_of_a_sequence, shapes.q.tokens, shapes.total, shapes.past};
    }
    if (const KvView* bound = context.kv_view()) {
      if (bound->type != type || bound->key.head_size != shapes.k.size ||
          bound->value.head_size != shapes.v.size) {
        return UnsupportedError(
            "the KV cache holds {} heads of {} and {}, the attention node {} of {} and {}",
            DataTypeName(bound->type), bound->key.head_size, bound->value.head_size, DataTypeName(type),
            shapes.k.size, shapes.v.size);
      }
      for (int64_t b = 0; b < shapes.q.batch; ++b) {
        const int64_t past = bound->past_lengths[b];
        if (past < 0 || past + shapes.k.tokens > bound->capacity_tokens) {
          return InvalidArgumentError(
              "sequence {}: {} past tokens and {} of this run exceed the KV cache's capacity of {}", b, past,
              shapes.k.tokens, bound->capacity_tokens);
        }
        sequences[b].kv_tokens = past + shapes.k.tokens;
        sequences[b].query_offset = past;
      }
      AppendTokens(context.threads(), PlaneOf(shapes.k, k), shapes.k, *bound, bound->key, sequences);
      AppendTokens(context.threads(), PlaneOf(shapes.v, v), shapes.v, *bound, bound->value, sequences);
      return *bound;
    }

    // Present is past and the run's tokens; without it, and without a past, the inputs are read in place.
    LAMINA_ASSIGN_OR_RETURN(Tensor * present_key, OptionalOutput(context, kPresentKey,
                                                                 Shape{shapes.k.batch, shapes.k.heads,
                                                                       shapes.total, shapes.k.size}));
    LAMINA_ASSIGN_OR_RETURN(Tensor * present_value, OptionalOutput(context, kPresentValue,
                                                                   Shape{shapes.v.batch, shapes.v.heads,
                                                                         shapes.total, shapes.v.size}));
    if (shapes.past > 0 && (!present_key || !present_value)) {
      return UnsupportedError("a past without present_key and present_value outputs");
    }
    if (const Tensor* lengths = OptionalInput(context, kNonpadLengths)) {
      LAMINA_RETURN_IF_ERROR(ReadLengths(*lengths, shapes, sequences));
    }
    KvPlane planes[2];
    for (const bool is_key : {true, false}) {
      const Tensor& tokens = is_key ? k : v;
      const Heads& heads = is_key ? shapes.k : shapes.v;
      Tensor* present = is_key ? present_key : present_value;
      KvPlane& plane = planes[is_key ? 0 : 1];
      plane = PlaneOf(heads, tokens);
      if (!present) continue;
      const Tensor* past = OptionalInput(context, is_key ? kPastKey : kPastValue);
      const KvPlane target =
          PlaneOfHeads(present->mutable_raw_data(), type, heads.heads, shapes.total, heads.size);
      ConcatenateTokens(context.threads(), past ? past->raw_data() : nullptr, shapes.past, plane, heads,
                        target, type);
      plane = target;
    }
    return ContiguousKv(planes[0], planes[1], type, shapes.k.heads, shapes.total);
  }

  static Status ReadLengths(const Tensor& lengths, const Shapes& shapes, AttentionSequence* sequences) {
    if (lengths.shape() != Shape{shapes.q.batch}) {
      return InvalidArgumentError("nonpad_kv_seqlen must have shape [{}], found {}", shapes.q.batch,
                                  lengths.shape().ToString());
    }
    for (int64_t b = 0; b < shapes.q.batch; ++b) {
      const int64_t length = lengths.data<int64_t>()[b];
      if (length < 0 || length > shapes.total) {
        return InvalidArgumentError("nonpad_kv_seqlen[{}] = {} is out of range [0, {}]", b, length,
                                    shapes.total);
      }
      sequences[b].kv_tokens = length;
      sequences[b].query_offset = length - shapes.q.tokens;
    }
    return Status();
  }

  // A mask broadcast to [batch, heads, sequence, total]; one with fewer keys hides the others (24).
  static Result<AttentionBias> ParseMask(const KernelContext& context, const Shapes& shapes) {
    AttentionBias bias;
    const Tensor* mask = OptionalInput(context, kMask);
    if (!mask) return bias;
    const Shape& shape = mask->shape();
    const int64_t full[4] = {shapes.q.batch, shapes.q.heads, shapes.q.tokens, shapes.total};
    int64_t strides[4] = {0, 0, 0, 0};
    int64_t stride = 1;
    bool fits = shape.rank() >= 1 && shape.rank() <= 4;
    for (int i = 0; fits && i < shape.rank(); ++i) {
      const int axis = 3 - i;
      const int64_t dim = shape[shape.rank() - 1 - i];
      const bool shorter = axis == 3 && dim <= full[3];
      fits = dim == 1 || dim == full[axis] || shorter;
      if (dim != 1) strides[axis] = stride;
      stride *= dim;
    }
    if (!fits) {
      return InvalidArgumentError("attn_mask of shape {} does not broadcast to [{},{},{},{}]",
                                  shape.ToString(), full[0], full[1], full[2], full[3]);
    }
    bias.data = mask->raw_data();
    bias.type = mask->type();
    bias.masked = -INFINITY;
    bias.batch_stride = strides[0];
    bias.head_stride = strides[1];
    bias.query_stride = strides[2];
    bias.key_stride = strides[3];
    bias.keys = strides[3] == 0 ? shapes.total : shape[shape.rank() - 1];
    return bias;
  }

  Status WriteScores(KernelContext& context, const Shapes& shapes, const AttentionParams& params) const {
    const Shape shape{shapes.q.batch, shapes.q.heads, shapes.q.tokens, shapes.total};
    LAMINA_ASSIGN_OR_RETURN(Tensor * scores, OptionalOutput(context, kScores, shape));
    if (!scores) return Status();
    constexpr ScoreStage kStages[] = {ScoreStage::kScaled, ScoreStage::kCapped, ScoreStage::kMasked,
                                      ScoreStage::kSoftmax};
    WriteAttentionScores(context.threads(), params, kStages[scores_mode_], -INFINITY, shapes.total,
                         scores->mutable_raw_data());
    return Status();
  }

  CpuIsa isa_;
  int lanes_;
  int64_t q_num_heads_;
  int64_t kv_num_heads_;
  float scale_;
  float softcap_;
  bool causal_;
  int64_t scores_mode_;
  int64_t window_left_;
  int64_t window_right_;
};

}  // namespace

void RegisterOnnxAttention(KernelRegistry& registry) {
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16}) {
    KernelDef def("Attention");
    def.Since(23);
    for (const int i : {kQ, kK, kV, kPastKey, kPastValue}) def.Input(i, type);
    def.Input(kMask, kHalfAndFloatTypes | DataType::kBool).Input(kNonpadLengths, DataType::kInt64);
    for (const int i : {kY, kPresentKey, kPresentValue, kScores}) def.Output(i, type);
    def.KvCache(kPastKey, kPastValue, kPresentKey, kPresentValue);
    registry.Add(std::move(def), CreateKernel<OnnxAttention>, EstimateWorkspace<OnnxAttention>);
  }
}

}  // namespace lamina
