// Attention (com.microsoft): the projections of `input` [batch, sequence, features] by `weights`
// [features, q + k + v hidden] and `bias`, then multi-head attention.
//   mask_index [batch] ends of the keys; [2 batch] ends, then starts; [3 batch + 2] whose first ones are
//   ends;
//     [batch, total] or [batch, sequence, total] with 0 for hidden keys; [batch, 1, max, max] by positions;
//     [batch|1, 1] says nothing
//   past and present [2, batch, heads, tokens, size]: keys, then values; present holds past and run, or is as
//     long as past where past_present_share_buffer is set and past_sequence_length tells its valid tokens
//   attention_bias [batch|1, heads|1, sequence, total]
// Hidden keys get mask_filter_value on their scores, so that a query whose keys are all hidden sees all
// alike. do_rotary turns pairs (i, i + pairs) of queries and keys by position / 10000^(i / pairs).
#include <algorithm>
#include <cmath>
#include <memory>

#include "base/error.h"
#include "provider/kernel_registry.h"
#include "providers/cpu/attention/kv_address.h"
#include "providers/cpu/attention/multi_head.h"
#include "providers/cpu/cpu_kernels.h"
#include "providers/cpu/gemm/packed_matrix.h"
#include "providers/cpu/kernel_util.h"
#include "providers/cpu/rows/row_kernels.h"
#include "providers/cpu/simd/vec_math.h"
#include "providers/cpu/workspace_bounds.h"

namespace lamina {
namespace {

constexpr int kInput = 0, kWeights = 1, kBias = 2, kMask = 3, kPast = 4, kAttentionBias = 5, kPastLength = 6;
constexpr int kOutput = 0, kPresent = 1;

// Workspace slots.
constexpr int kCore = 0;
constexpr int kProjections = 1;   // [batch * sequence, q + k + v]
constexpr int kInputAsFloat = 2;  // fp16 and bf16
constexpr int kExpandedMask = 3;  // [batch, total] int32
constexpr int kRotations = 4;     // cosines and sines [2, sequence, pairs]

class ContribAttention : public Kernel {
 public:
  explicit ContribAttention(const NodeInfo& node)
      : isa_(ActiveIsa()),
        kernels_(GemmKernelsFor(isa_)),
        lanes_(WorkerLanes(node)),
        type_(node.input_type(kInput).element),
        attributes_(node),
        hidden_sizes_(*IntsAttribute(node, "qkv_hidden_sizes")),
        shares_buffer_(node.Int("past_present_share_buffer", 0) != 0),
        rotates_(node.Int("do_rotary", 0) != 0),
        rotary_dim_(node.Int("rotary_embedding_dim", 0)) {
    const ShapeBounds* weights = node.input_bounds(kWeights);
    if (node.is_constant_input(kWeights) && weights && weights->rank() == 2 && weights->bounded()) {
      weights_shape_ = weights->Max();
    }
  }

  static Status Validate(const NodeInfo& node) {
    LAMINA_RETURN_IF_ERROR(MultiHeadAttributes::Validate(node));
    LAMINA_ASSIGN_OR_RETURN(const IntList sizes, IntsAttribute(node, "qkv_hidden_sizes"));
    if (!sizes.empty() && (sizes.size() != 3 || sizes[0] != sizes[1] || sizes[0] < 1 || sizes[2] < 1)) {
      return InvalidModelError(
          "node '{}': Attention: qkv_hidden_sizes must be three sizes, those of Q and K equal", node.name());
    }
    return Status();
  }

  static Status Workspace(const NodeInfo& node, WorkspaceRequirements& requirements) {
    return ContribAttention(node).DeclareWorkspaceRequirements(node, requirements);
  }
  Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                      WorkspaceRequirements& requirements) const override {
    LAMINA_ASSIGN_OR_RETURN(const Shape input, LargestInputShape(node, kInput));
    LAMINA_ASSIGN_OR_RETURN(const Shape weights, LargestInputShape(node, kWeights));
    const Result<Projections> p = Describe(input, weights);
    if (!p.ok()) return Status();  // Compute reports it
    int64_t past = 0;
    if (node.HasInput(kPast)) {
      LAMINA_ASSIGN_OR_RETURN(const Shape past_shape, LargestInputShape(node, kPast));
      past = past_shape.rank() == 5 ? past_shape[3] : 0;
    }
    LAMINA_RETURN_IF_ERROR(requirements.Add(kCore, AttentionWorkspaceBytes(LimitsOf(*p, WorkerLanes(node)))));
    LAMINA_RETURN_IF_ERROR(requirements.Add(kProjections, p->TotalBytes(type_)));
    if (type_ != DataType::kFloat) {
      LAMINA_RETURN_IF_ERROR(
          requirements.Add(kInputAsFloat, static_cast<size_t>(input.num_elements()) * sizeof(float)));
    }
    if (node.HasInput(kMask)) {
      const int64_t elements = p->q.batch * (past + p->k.tokens);
      LAMINA_RETURN_IF_ERROR(
          requirements.Add(kExpandedMask, static_cast<size_t>(elements) * sizeof(int32_t)));
    }
    if (!rotates_) return Status();
    return requirements.Add(kRotations,
                            static_cast<size_t>(2 * p->q.tokens * RotaryPairs(*p)) * sizeof(float));
  }

  Status DeclarePrepack(const NodeInfo&, int input, PrepackDeclaration& declaration) const override {
    if (input != kWeights || weights_shape_.rank() != 2) return Status();
    declaration.prepack = true;
    declaration.packed_bytes = PackedMatrixBytes(type_, weights_shape_[0], weights_shape_[1]);
    return Status();
  }
  Status PrePackWeight(int input, PrepackContext& context, void* packed, void*) const override {
    const void* data = context.Constant(input)->raw_data();
    PackMatrix(context.threads(), kernels_, {data, type_, weights_shape_[0], weights_shape_[1], false},
               packed);
    return Status();
  }

  Status Compute(KernelContext& context) const override {
    const Tensor& input = *context.Input(kInput);
    const bool packed = context.Packed(kWeights).data != nullptr;
    LAMINA_ASSIGN_OR_RETURN(
        Projections p, Describe(input.shape(), packed ? weights_shape_ : context.Input(kWeights)->shape()));
    LAMINA_ASSIGN_OR_RETURN(const int64_t past, PastTokens(context, p));
    const int64_t total = past + p.k.tokens;
    LAMINA_ASSIGN_OR_RETURN(void* rows, context.GetScratchBuffer(kProjections, p.TotalBytes(type_)));
    LAMINA_RETURN_IF_ERROR(Project(context, input, p, rows));
    p.SetPlanesOfRows(type_, rows);
    if (rotates_) LAMINA_RETURN_IF_ERROR(Rotate(context, p, past));

    const AttentionLimits limits = LimitsOf(p, lanes_);
    LAMINA_ASSIGN_OR_RETURN(void* core, context.GetScratchBuffer(kCore, AttentionWorkspaceBytes(limits)));
    auto* sequences = static_cast<AttentionSequence*>(core);
    for (int64_t b = 0; b < p.q.batch; ++b) {
      sequences[b] = {b * p.q.tokens, p.q.tokens, total, past};
    }
    const Shape output_shape{p.q.batch, p.q.tokens, p.v.heads * p.v.size};
    LAMINA_ASSIGN_OR_RETURN(Tensor * output, context.Output(kOutput, output_shape));
    AttentionParams params = ParamsOf(attributes_, p, type_, sequences, *output);
    LAMINA_ASSIGN_OR_RETURN(params.kv, JoinPast(context, p, past, sequences));
    if (const Tensor* mask = OptionalInput(context, kMask)) {
      LAMINA_ASSIGN_OR_RETURN(params.biases[0], MaskOf(context, *mask, p, past));
    }
    if (const Tensor* attention_bias = OptionalInput(context, kAttentionBias)) {
      LAMINA_ASSIGN_OR_RETURN(params.biases[1], ScoreBias(*attention_bias, p, total));
    }
    RunAttention(context.threads(), isa_, params, limits, core);
    return Status();
  }

 private:
  // The sizes of the projections.
  Result<Projections> Describe(const Shape& input, const Shape& weights) const {
    if (input.rank() != 3 || weights.rank() != 2 || input[2] != weights[0]) {
      return InvalidArgumentError("weights of shape {} do not project an input of shape {}",
                                  weights.ToString(), input.ToString());
    }
    const int64_t heads = attributes_.num_heads;
    const int64_t hidden = hidden_sizes_.empty() ? weights[1] / 3 : hidden_sizes_[0];
    const int64_t value_hidden = hidden_sizes_.empty() ? hidden : hidden_sizes_[2];
    if (2 * hidden + value_hidden != weights[1] || hidden % heads != 0 || value_hidden % heads != 0) {
      return InvalidArgumentError(
          "weights of shape {} do not hold Q, K and V of hidden sizes {}, {} and {} for {} heads",
          weights.ToString(), hidden, hidden, value_hidden, heads);
    }
    Projections p;
    p.q = {input[0], heads, input[1], hidden / heads, true};
    p.k = p.q;
    p.v = {input[0], heads, input[1], value_hidden / heads, true};
    return p;
  }

  int64_t RotaryPairs(const Projections& p) const { return (rotary_dim_ > 0 ? rotary_dim_ : p.q.size) / 2; }

  // rows [batch * sequence, q | k | v] = input weights + bias
  Status Project(KernelContext& context, const Tensor& input, const Projections& p, void* rows) const {
    const float* input_floats = input.data<float>();
    if (type_ != DataType::kFloat) {
      LAMINA_ASSIGN_OR_RETURN(float* floats, GetScratch<float>(context, kInputAsFloat, input.num_elements()));
      ConvertToFloat(context.threads(), type_, input.raw_data(), floats, input.num_elements());
      input_floats = floats;
    }
    const int64_t width = p.q.heads * (2 * p.q.size + p.v.size);
    const GemmShape shape{1, p.q.batch * p.q.tokens, width, input.shape()[2]};
    const void* packed = context.Packed(kWeights).data;
    const PlainMatrix plain{packed ? nullptr : context.Input(kWeights)->raw_data(), type_, shape.k, shape.n,
                            false};
    const char* bias = nullptr;
    if (const Tensor* tensor = OptionalInput(context, kBias)) {
      LAMINA_ASSIGN_OR_RETURN(const ProjectionBias parts, SplitBias(*tensor, p));
      bias = parts.q;
    }
    const int64_t element_bytes = ElementBytes(type_);
    RunGemm(
        context.threads(), kernels_, shape, [&](int64_t) { return input_floats; }, shape.k,
        [&](const GemmPanelRequest& request) {
          return packed ? PackedPanel(kernels_, type_, packed, shape.k, request)
                        : PlainPanel(kernels_, plain, shape.m, request);
        },
        [&](int64_t, int64_t row, int64_t column, int64_t count, const float* values) {
          char* target = static_cast<char*>(rows) + (row * width + column) * element_bytes;
          if (!bias) return ConvertFromFloat(type_, values, target, count);
          float sums[kMaxGemmPanelColumns];
          ConvertToFloat(type_, bias + column * element_bytes, sums, count);
          for (int64_t i = 0; i < count; ++i) sums[i] += values[i];
          ConvertFromFloat(type_, sums, target, count);
        });
    return Status();
  }

  Status Rotate(KernelContext& context, const Projections& p, int64_t past) const {
    const int64_t pairs = RotaryPairs(p);
    if (2 * pairs > p.q.size) {
      return InvalidArgumentError("a rotary dimension of {} for heads of {}", 2 * pairs, p.q.size);
    }
    const int64_t element_bytes = ElementBytes(type_);
    LAMINA_ASSIGN_OR_RETURN(float* memory, GetScratch<float>(context, kRotations, 2 * p.q.tokens * pairs));
    char* tables = reinterpret_cast<char*>(memory);  // of type_: no longer than floats
    const int64_t sine_offset = p.q.tokens * pairs * element_bytes;
    for (int64_t i = 0; i < p.q.tokens * pairs; ++i) {
      const double frequency =
          std::pow(10000.0, -static_cast<double>(i % pairs) / static_cast<double>(pairs));
      const int64_t position = past + i / pairs;
      const double angle = static_cast<double>(position) * frequency;
      const auto cosine = static_cast<float>(std::cos(angle));
      const auto sine = static_cast<float>(std::sin(angle));
      ConvertFromFloat(type_, &cosine, tables + i * element_bytes, 1);
      ConvertFromFloat(type_, &sine, tables + sine_offset + i * element_bytes, 1);
    }
    const auto rotate = RowKernelsFor(isa_).For(type_).rotate;
    context.threads().ParallelFor(
        p.q.batch * p.q.tokens, GrainOf(p.q.heads * p.q.size), [&](int64_t begin, int64_t end, int) {
          for (int64_t token = begin; token < end; ++token) {
            const int64_t s = token % p.q.tokens;
            RotateHead head;
            head.cos = tables + s * pairs * element_bytes;
            head.sin = tables + sine_offset + s * pairs * element_bytes;
            head.head_size = p.q.size;
            head.pairs = pairs;
            for (int64_t i = 0; i < 2 * p.q.heads; ++i) {
              const KvPlane& plane = i < p.q.heads ? p.query : p.key;
              char* base = static_cast<char*>(plane.base) + token * plane.token_stride_bytes;
              head.y = base + i % p.q.heads * plane.head_stride_bytes;
              head.x = head.y;
              rotate(head);
            }
          }
        });
    return Status();
  }

  // Valid tokens of past; checks its shape.
  Result<int64_t> PastTokens(const KernelContext& context, const Projections& p) const {
    const Tensor* past = OptionalInput(context, kPast);
    if (!past) return int64_t{0};
    const int64_t capacity = past->shape().rank() == 5 ? past->shape()[3] : 0;
    const Shape expected{2, p.k.batch, p.k.heads, capacity, p.k.size};
    if (past->shape() != expected || p.k.size != p.v.size) {
      return InvalidArgumentError("past must have shape {} and keys as wide as values, found {}",
                                  expected.ToString(), past->shape().ToString());
    }
    if (!shares_buffer_) return capacity;
    const Tensor* length = OptionalInput(context, kPastLength);
    if (!length) return InvalidArgumentError("past_present_share_buffer needs past_sequence_length");
    LAMINA_ASSIGN_OR_RETURN(const int64_t tokens, ReadInt(*length));
    if (tokens < 0 || tokens + p.k.tokens > capacity) {
      return InvalidArgumentError("{} past tokens and {} of this run do not fit a past of {}", tokens,
                                  p.k.tokens, capacity);
    }
    return tokens;
  }

  // Fills present, where it is wanted, and gives the view of all keys and values.
  Result<KvView> JoinPast(KernelContext& context, const Projections& p, int64_t past_tokens,
                          const AttentionSequence* sequences) const {
    const Tensor* past = OptionalInput(context, kPast);
    const int64_t capacity = past && shares_buffer_ ? past->shape()[3] : past_tokens + p.k.tokens;
    if (context.HasOutput(kPresent) && p.k.size != p.v.size) {
      return InvalidArgumentError("present holds keys as wide as values, found heads of {} and {}", p.k.size,
                                  p.v.size);
    }
    LAMINA_ASSIGN_OR_RETURN(
        Tensor * present,
        OptionalOutput(context, kPresent, Shape{2, p.k.batch, p.k.heads, capacity, p.k.size}));
    if (!present) {
      if (past_tokens > 0) return UnsupportedError("a past without the output present");
      return ContiguousKv(p.key, p.value, type_, p.k.heads, p.k.tokens);
    }
    char* keys = static_cast<char*>(present->mutable_raw_data());
    char* values = keys + p.k.batch * p.k.heads * capacity * p.k.size * ElementBytes(type_);
    KvView view =
        ContiguousKv(PlaneOfHeads(keys, type_, p.k.heads, capacity, p.k.size),
                     PlaneOfHeads(values, type_, p.v.heads, capacity, p.v.size), type_, p.k.heads, capacity);
    if (past && shares_buffer_) {
      if (!past->SharesMemoryWith(*present)) {
        CopyElements(type_, past->raw_data(), present->mutable_raw_data(), past->num_elements());
      }
      AppendTokens(context.threads(), p.key, p.k, view, view.key, sequences);
      AppendTokens(context.threads(), p.value, p.v, view, view.value, sequences);
      return view;
    }
    const char* past_keys = past ? static_cast<const char*>(past->raw_data()) : nullptr;
    const char* past_values = past ? past_keys + past->num_elements() / 2 * ElementBytes(type_) : nullptr;
    ConcatenateTokens(context.threads(), past_keys, past_tokens, p.key, p.k, view.key, type_);
    ConcatenateTokens(context.threads(), past_values, past_tokens, p.value, p.v, view.value, type_);
    return view;
  }

  Result<AttentionBias> MaskOf(KernelContext& context, const Tensor& mask, const Projections& p,
                               int64_t past) const {
    const Shape& shape = mask.shape();
    const int64_t batch = p.q.batch;
    const int64_t total = past + p.k.tokens;
    const float masked = attributes_.mask_filter_value;
    if (shape.rank() == 1) {
      const int64_t count = shape[0];
      if (count != batch && count != 2 * batch && count != 3 * batch + 2) {
        return InvalidArgumentError("mask_index of one axis must hold {}, {} or {} elements, found {}", batch,
                                    2 * batch, 3 * batch + 2, count);
      }
      LAMINA_ASSIGN_OR_RETURN(int32_t * visible, GetScratch<int32_t>(context, kExpandedMask, batch * total));
      const int32_t* bounds = mask.data<int32_t>();
      for (int64_t b = 0; b < batch; ++b) {
        const int64_t begin = count == 2 * batch ? bounds[batch + b] : 0;
        for (int64_t j = 0; j < total; ++j) visible[b * total + j] = j >= begin && j < bounds[b] ? 1 : 0;
      }
      AttentionBias bias;
      bias.data = visible;
      bias.type = DataType::kInt32;
      bias.masked = masked;
      bias.batch_stride = total;
      bias.key_stride = 1;
      bias.keys = total;
      return bias;
    }
    if (shape.rank() == 2 && shape[1] == 1 && total != 1 && (shape[0] == batch || shape[0] == 1)) {
      return AttentionBias();  // one value for all keys changes no probability
    }
    if (shape.rank() == 4) {
      const int64_t side = shape[3];
      if (shape[0] != batch || shape[1] != 1 || shape[2] != side || side < total || attributes_.causal) {
        return InvalidArgumentError(
            "mask_index of four axes must be [{},1,max,max] with max at least {}, in attention that is not "
            "unidirectional; found {}",
            batch, total, shape.ToString());
      }
      AttentionBias bias;
      bias.data = mask.data<int32_t>() + past * side;
      bias.type = DataType::kInt32;
      bias.masked = masked;
      bias.batch_stride = side * side;
      bias.query_stride = side;
      bias.key_stride = 1;
      bias.keys = total;
      return bias;
    }
    return KeyMask(mask, p, total, masked);
  }

  CpuIsa isa_;
  const GemmKernels& kernels_;
  int lanes_;
  DataType type_;
  MultiHeadAttributes attributes_;
  IntList hidden_sizes_;  // of q, k and v; empty: a third of the weights each
  bool shares_buffer_;
  bool rotates_;
  int64_t rotary_dim_;   // 0: the whole head
  Shape weights_shape_;  // of constant weights; else rank 0
};

}  // namespace

void RegisterContribAttention(KernelRegistry& registry) {
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16}) {
    KernelDef def("Attention", kMsDomain);
    for (const int i : {kInput, kWeights, kBias, kPast, kAttentionBias}) def.Input(i, type);
    def.Input(kMask, DataType::kInt32).Input(kPastLength, DataType::kInt32).HostInput(kPastLength);
    def.Output(kOutput, type).Output(kPresent, type).MayInplace(kPast, kPresent);
    registry.Add(std::move(def), CreateKernel<ContribAttention>, EstimateWorkspace<ContribAttention>);
  }
}

}  // namespace lamina
