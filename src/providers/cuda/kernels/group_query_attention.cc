// GroupQueryAttention (com.microsoft): the run's queries and keys are normalised and rotated, keys and values
// go into the cache, and the queries attend to it. How long each row is, is read on the device alone.
#include <algorithm>
#include <cmath>

#include "providers/cuda/kernels/cuda_kernel.h"
#include "providers/cuda/kernels/families.h"

namespace lamina::cuda {
namespace {

constexpr int kQuery = 0, kKey = 1, kValue = 2, kPastKey = 3, kPastValue = 4, kSeqlens = 5, kTotalLength = 6,
              kCos = 7, kSin = 8, kPositionIds = 9, kAttentionBias = 10, kHeadSink = 11, kQNorm = 14,
              kKNorm = 15;
constexpr int kOutput = 0, kPresentKey = 1, kPresentValue = 2, kScores = 3;

// Workspace slots.
constexpr int kQueries = 0;   // normalised and rotated [batch, sequence, heads, head_size]
constexpr int kPartials = 1;  // results of splits

constexpr int64_t kMaxHeadSize = 256;

// Runs of keys of one query token that are computed apart: enough that every multiprocessor has two blocks.
// Depends on what is known before a run, never on lengths.
int SplitsFor(int64_t tokens, int64_t kv_heads, int multiprocessors) {
  constexpr int64_t kMaxSplits = 32;
  const int64_t blocks = std::max<int64_t>(1, tokens * kv_heads);
  return static_cast<int>(std::clamp<int64_t>(2 * int64_t{multiprocessors} / blocks, 1, kMaxSplits));
}

int64_t PartialsBytes(int64_t tokens, int64_t heads, int64_t head_size, int splits) {
  return splits == 1 ? 0 : tokens * heads * splits * (head_size + 2) * static_cast<int64_t>(sizeof(float));
}

struct Attributes {
  explicit Attributes(const NodeInfo& node)
      : heads(node.Int("num_heads", 0)),
        kv_heads(node.Int("kv_num_heads", 0)),
        scale(node.Float("scale", 0.0f)),
        softcap(node.Float("softcap", 0.0f)),
        window(node.Int("local_window_size", -1)),
        do_rotary(node.Int("do_rotary", 0) != 0),
        interleaved(node.Int("rotary_interleaved", 0) != 0),
        smooth_softmax(node.Int("smooth_softmax", 0) == 1),
        causal(node.Int("causal", 1) != 0),
        norm_epsilon(node.Float("qk_norm_epsilon", 1e-6f)) {}

  int64_t heads;
  int64_t kv_heads;
  float scale;     // 0: 1 / sqrt(head size)
  float softcap;   // 0: none
  int64_t window;  // tokens seen, the query's own included; -1: all
  bool do_rotary;
  bool interleaved;
  bool smooth_softmax;
  bool causal;
  float norm_epsilon;

  int64_t HeadSize(int64_t hidden, bool packed) const {
    return hidden / (packed ? heads + 2 * kv_heads : heads);
  }
};

// The inputs of a run, checked as far as the host knows them.
struct Inputs {
  DataType type = DataType::kFloat;
  int64_t batch = 0;
  int64_t sequence = 0;
  int64_t head_size = 0;
  int64_t past_tokens = 0;  // of past_key
  int64_t total = 0;        // the longest row, past included; 0: only the device knows
  AttentionTokensArguments tokens{};
  AttentionArguments attention{};
};

class GroupQueryAttention : public CudaKernel {
 public:
  GroupQueryAttention(const NodeInfo& node, const KernelLauncher& launcher)
      : CudaKernel(node, launcher), attributes_(node) {}

  static Status Validate(const NodeInfo& node) {
    const Attributes attributes(node);
    if (attributes.heads <= 0 || attributes.kv_heads <= 0 || attributes.heads % attributes.kv_heads != 0) {
      return InvalidModelError("num_heads must be a positive multiple of kv_num_heads, found {} and {}",
                               attributes.heads, attributes.kv_heads);
    }
    if (attributes.window == 0 || attributes.window < -1) {
      return InvalidModelError("local_window_size must be -1 or positive, found {}", attributes.window);
    }
    if (node.Int("sliding_window_cache", 0) != 0) return UnsupportedError("sliding_window_cache");
    if (node.HasOutput(kScores)) return UnsupportedError("the output of scores");
    for (const char* quantisation : {"k_quant_type", "v_quant_type"}) {
      if (node.String(quantisation, "NONE") != "NONE") return UnsupportedError("quantised KV caches");
    }
    const ShapeBounds* query = node.input_bounds(kQuery);
    if (query && query->rank() == 3 && query->bounded()) {
      const int64_t head_size = attributes.HeadSize(query->Max()[2], !node.HasInput(kKey));
      if (head_size > kMaxHeadSize) {
        return UnsupportedError("heads of {}: at most {} are supported", head_size, kMaxHeadSize);
      }
    }
    return Status();
  }

  static Status Workspace(const NodeInfo& node, WorkspaceRequirements& requirements) {
    const Attributes attributes(node);
    LAMINA_ASSIGN_OR_RETURN(const Shape query, LargestInput(node, kQuery));
    if (query.rank() != 3) return Status();  // Compute reports it
    const int64_t head_size = attributes.HeadSize(query[2], !node.HasInput(kKey));
    const int64_t tokens = query[0] * query[1];
    if (attributes.do_rotary || node.HasInput(kQNorm)) {
      const int64_t bytes =
          tokens * attributes.heads * head_size * ElementBytesOf(node.input_type(0).element);
      LAMINA_RETURN_IF_ERROR(requirements.Add(kQueries, static_cast<size_t>(bytes)));
    }
    // Fewer tokens have more splits each: the largest product of the two.
    const int multiprocessors = node.device().multiprocessors > 0 ? node.device().multiprocessors : 64;
    int64_t partials = 0;
    for (int64_t count = 1; count <= tokens; ++count) {
      const int splits = SplitsFor(count, attributes.kv_heads, multiprocessors);
      if (splits == 1) break;
      partials = std::max(partials, PartialsBytes(count, attributes.heads, head_size, splits));
    }
    return requirements.Add(kPartials, static_cast<size_t>(partials));
  }
  Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                      WorkspaceRequirements& requirements) const override {
    return Workspace(node, requirements);
  }
  // The cache has the lengths, on the device.
  bool NeedsWithCache(int input) const override { return input != kSeqlens && input != kTotalLength; }

  Status Compute(KernelContext& context) const override {
    Inputs inputs;
    LAMINA_RETURN_IF_ERROR(ParseTokens(context, inputs));
    LAMINA_RETURN_IF_ERROR(ParsePast(context, inputs));
    LAMINA_RETURN_IF_ERROR(ParseLengths(context, inputs));
    LAMINA_RETURN_IF_ERROR(ParseRotary(context, inputs));
    LAMINA_RETURN_IF_ERROR(ParseExtras(context, inputs));
    LAMINA_RETURN_IF_ERROR(OpenCache(context, inputs));
    const Shape shape{inputs.batch, inputs.sequence, attributes_.heads * inputs.head_size};
    LAMINA_ASSIGN_OR_RETURN(Tensor * output, context.Output(kOutput, shape));
    if (!output || output->num_elements() == 0) return Status();
    LAMINA_RETURN_IF_ERROR(DescribeTokens(context, inputs));
    LAMINA_RETURN_IF_ERROR(DescribeAttention(context, inputs, *output));
    if (inputs.sequence == 1) {
      LAMINA_ASSIGN_OR_RETURN(
          const bool done, LaunchWhereServed(context.stream(), "attention_step", &KernelApi::attention_step,
                                             AttentionStepArguments{inputs.tokens, inputs.attention}));
      if (done) return Status();
    }
    LAMINA_RETURN_IF_ERROR(
        Launch(context.stream(), "attention_tokens", &KernelApi::attention_tokens, inputs.tokens));
    return Launch(context.stream(), "attention", &KernelApi::attention, inputs.attention);
  }

 private:
  // Query, key and value: three tensors, or one with all heads of a token.
  Status ParseTokens(const KernelContext& context, Inputs& inputs) const {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* query, Required(context, kQuery));
    const Tensor* key = Optional(context, kKey);
    const Tensor* value = Optional(context, kValue);
    if (query->shape().rank() != 3) {
      return InvalidArgumentError("query must have shape [batch, sequence, hidden], found {}",
                                  query->shape().ToString());
    }
    if ((key == nullptr) != (value == nullptr)) {
      return InvalidArgumentError("key and value must be both present or both absent");
    }
    const int64_t hidden = query->shape()[2];
    const int64_t heads = key ? attributes_.heads : attributes_.heads + 2 * attributes_.kv_heads;
    if (hidden % heads != 0 || hidden / heads % 8 != 0) {
      return InvalidArgumentError("query's hidden size {} is not divisible into {} heads of a multiple of 8",
                                  hidden, heads);
    }
    inputs.type = query->type();
    inputs.batch = query->shape()[0];
    inputs.sequence = query->shape()[1];
    inputs.head_size = hidden / heads;
    const int64_t kv_hidden = attributes_.kv_heads * inputs.head_size;
    AttentionTokensArguments& tokens = inputs.tokens;
    tokens.query = query->raw_data();
    tokens.query_strides = {inputs.sequence * hidden, hidden, inputs.head_size};
    if (key) {
      const Shape expected{inputs.batch, inputs.sequence, kv_hidden};
      LAMINA_RETURN_IF_ERROR(CheckShape("key", *key, expected));
      LAMINA_RETURN_IF_ERROR(CheckShape("value", *value, expected));
      tokens.key = key->raw_data();
      tokens.value = value->raw_data();
      tokens.key_strides = tokens.value_strides = {inputs.sequence * kv_hidden, kv_hidden, inputs.head_size};
    } else {
      const auto* data = static_cast<const std::byte*>(query->raw_data());
      const int64_t head_bytes = inputs.head_size * ElementBytesOf(inputs.type);
      tokens.key = data + attributes_.heads * head_bytes;
      tokens.value = data + (attributes_.heads + attributes_.kv_heads) * head_bytes;
      tokens.key_strides = tokens.value_strides = tokens.query_strides;
    }
    return Status();
  }

  Status ParsePast(const KernelContext& context, Inputs& inputs) const {
    if (context.kv_view()) return Status();
    const Tensor* key = Optional(context, kPastKey);
    const Tensor* value = Optional(context, kPastValue);
    if ((key == nullptr) != (value == nullptr)) {
      return InvalidArgumentError("past_key and past_value must be both present or both absent");
    }
    if (!key) return Status();
    inputs.past_tokens = key->shape().rank() == 4 ? key->shape()[2] : 0;
    const Shape expected{inputs.batch, attributes_.kv_heads, inputs.past_tokens, inputs.head_size};
    LAMINA_RETURN_IF_ERROR(CheckShape("past_key", *key, expected));
    return CheckShape("past_value", *value, expected);
  }

  Status ParseLengths(const KernelContext& context, Inputs& inputs) const {
    const Tensor* seqlens = Optional(context, kSeqlens);
    const Tensor* total = Optional(context, kTotalLength);
    // With a cache bound neither is needed.
    if ((seqlens == nullptr) != (total == nullptr) && !context.kv_view()) {
      return InvalidArgumentError("seqlens_k and total_sequence_length must be both present or both absent");
    }
    RowLengths lengths{};
    if (seqlens && total) {
      if (seqlens->num_elements() != inputs.batch || total->num_elements() != 1) {
        return InvalidArgumentError(
            "seqlens_k must have shape [{}] and total_sequence_length one element, found {} and {}",
            inputs.batch, seqlens->shape().ToString(), total->shape().ToString());
      }
      inputs.total = *total->data<int32_t>();
      if (inputs.total < inputs.sequence) {
        return InvalidArgumentError("total_sequence_length {} is less than the sequence length {}",
                                    inputs.total, inputs.sequence);
      }
      lengths.last = static_cast<const int32_t*>(seqlens->raw_data());
      lengths.first_prompt = inputs.total == inputs.sequence ? 1 : 0;
    } else {
      lengths.fixed_past = static_cast<int32_t>(inputs.past_tokens);
      if (!context.kv_view()) inputs.total = inputs.past_tokens + inputs.sequence;
    }
    if (const KvView* bound = context.kv_view()) {
      lengths = RowLengths{};
      lengths.past = bound->past_lengths;
    }
    inputs.tokens.lengths = inputs.attention.lengths = lengths;
    return Status();
  }

  Status ParseRotary(const KernelContext& context, Inputs& inputs) const {
    const Tensor* ids = Optional(context, kPositionIds);
    if (ids && ids->num_elements() != inputs.batch * inputs.sequence) {
      return InvalidArgumentError("position_ids must have shape [{},{}], found {}", inputs.batch,
                                  inputs.sequence, ids->shape().ToString());
    }
    if (!attributes_.do_rotary) return Status();
    const Tensor* cos = Optional(context, kCos);
    const Tensor* sin = Optional(context, kSin);
    if (!cos || !sin || cos->shape() != sin->shape()) {
      return InvalidArgumentError("cos_cache and sin_cache must be present and of one shape for do_rotary");
    }
    const int rank = cos->shape().rank();
    const bool by_token = rank == 3 && !ids;
    if (rank != 2 && !by_token) {
      return InvalidArgumentError("cos_cache must have 2 dimensions, found {}", cos->shape().ToString());
    }
    if (by_token && (cos->shape()[0] != inputs.batch || cos->shape()[1] != inputs.sequence)) {
      return InvalidArgumentError("without position_ids the caches must be [{},{},pairs], found {}",
                                  inputs.batch, inputs.sequence, cos->shape().ToString());
    }
    AttentionTokensArguments& tokens = inputs.tokens;
    tokens.pairs = static_cast<int32_t>(cos->shape()[rank - 1]);
    tokens.cache_rows = cos->shape().num_elements(0, rank - 1);
    if (2 * int64_t{tokens.pairs} > inputs.head_size) {
      return InvalidArgumentError("cos_cache dimension 1 must be <= head_size / 2, found {}", tokens.pairs);
    }
    if (!by_token && tokens.cache_rows < inputs.total) {
      return InvalidArgumentError("cos_cache dimension 0 shall not be less than total_sequence_length.");
    }
    tokens.cos = cos->raw_data();
    tokens.sin = sin->raw_data();
    tokens.interleaved = attributes_.interleaved ? 1 : 0;
    tokens.position = RotaryPosition::kFromPast;
    if (by_token) tokens.position = RotaryPosition::kByToken;
    if (ids) {
      tokens.position = RotaryPosition::kIds;
      tokens.ids = static_cast<const int64_t*>(ids->raw_data());
    }
    return Status();
  }

  Status ParseExtras(const KernelContext& context, Inputs& inputs) const {
    if (const Tensor* bias = Optional(context, kAttentionBias)) {
      const Shape& shape = bias->shape();
      const bool fits = shape.rank() == 4 && (shape[0] == 1 || shape[0] == inputs.batch) &&
                        (shape[1] == 1 || shape[1] == attributes_.heads) &&
                        (shape[2] == 1 || shape[2] == inputs.sequence) &&
                        (inputs.total == 0 || shape[3] == inputs.total);
      if (!fits) {
        return InvalidArgumentError("attention_bias must have shape [{}|1,{}|1,{}|1,{}], found {}",
                                    inputs.batch, attributes_.heads, inputs.sequence, inputs.total,
                                    shape.ToString());
      }
      AttentionBiasArguments& term = inputs.attention.biases[0];
      term.data = bias->raw_data();
      term.type = ElementTypeOf(bias->type());
      term.keys = shape[3];
      term.key_stride = 1;
      term.query_stride = shape[2] == 1 ? 0 : shape[3];
      term.head_stride = shape[1] == 1 ? 0 : shape[2] * shape[3];
      term.batch_stride = shape[0] == 1 ? 0 : shape[1] * shape[2] * shape[3];
    }
    if (const Tensor* sink = Optional(context, kHeadSink)) {
      LAMINA_RETURN_IF_ERROR(CheckShape("head_sink", *sink, Shape{attributes_.heads}));
      inputs.attention.sinks = sink->raw_data();
    }
    if (const Tensor* norm = Optional(context, kQNorm)) {
      LAMINA_RETURN_IF_ERROR(CheckShape("q_norm_weight", *norm, Shape{inputs.head_size}));
      inputs.tokens.q_norm = norm->raw_data();
    }
    if (const Tensor* norm = Optional(context, kKNorm)) {
      LAMINA_RETURN_IF_ERROR(CheckShape("k_norm_weight", *norm, Shape{inputs.head_size}));
      inputs.tokens.k_norm = norm->raw_data();
    }
    return Status();
  }

  // The session's cache, or the operator's past and present tensors.
  Status OpenCache(KernelContext& context, Inputs& inputs) const {
    KvCacheArguments& cache = inputs.tokens.cache;
    if (const KvView* bound = context.kv_view()) {
      if (bound->type != inputs.type || bound->key.head_size != inputs.head_size ||
          bound->value.head_size != inputs.head_size) {
        return UnsupportedError(
            "the KV cache holds {} heads of {}, the attention node computes in {} with {}",
            DataTypeName(bound->type), bound->key.head_size, DataTypeName(inputs.type), inputs.head_size);
      }
      if (inputs.total > bound->capacity_tokens) {
        return InvalidArgumentError("total_sequence_length {} exceeds the KV cache's capacity of {}",
                                    inputs.total, bound->capacity_tokens);
      }
      const auto plane = [](const KvPlane& of) {
        return KvPlaneArguments{of.base, of.block_stride_bytes, of.head_stride_bytes, of.token_stride_bytes};
      };
      cache.key = plane(bound->key);
      cache.value = plane(bound->value);
      cache.block_table = bound->block_table;
      cache.blocks_per_sequence = bound->blocks_per_sequence;
      cache.block_tokens = bound->block_tokens;
      cache.capacity_tokens = bound->capacity_tokens;
      inputs.attention.cache = cache;
      return Status();
    }
    const int64_t capacity = std::max(inputs.past_tokens, inputs.total);
    const Shape shape{inputs.batch, attributes_.kv_heads, capacity, inputs.head_size};
    LAMINA_ASSIGN_OR_RETURN(Tensor * key, OptionalOutput(context, kPresentKey, shape));
    LAMINA_ASSIGN_OR_RETURN(Tensor * value, OptionalOutput(context, kPresentValue, shape));
    if (!key || !value) {
      return InvalidArgumentError("present_key and present_value must be outputs where no KV cache is bound");
    }
    LAMINA_ASSIGN_OR_RETURN(cache.key, CopyPast(context, inputs, Optional(context, kPastKey), *key));
    LAMINA_ASSIGN_OR_RETURN(cache.value, CopyPast(context, inputs, Optional(context, kPastValue), *value));
    cache.blocks_per_sequence = 1;
    cache.block_tokens = cache.capacity_tokens = static_cast<int32_t>(std::max<int64_t>(capacity, 1));
    inputs.attention.cache = cache;
    return Status();
  }

  Result<KvPlaneArguments> CopyPast(KernelContext& context, const Inputs& inputs, const Tensor* past,
                                    Tensor& present) const {
    const int64_t tokens = present.shape()[2];
    const int64_t token_bytes = inputs.head_size * ElementBytesOf(inputs.type);
    const KvPlaneArguments plane{present.mutable_raw_data(), attributes_.kv_heads * tokens * token_bytes,
                                 tokens * token_bytes, token_bytes};
    if ((past && past->SharesMemoryWith(present)) || present.num_elements() == 0) return plane;
    AttentionPastArguments arguments{};
    arguments.element_bytes = ElementBytesOf(inputs.type);
    arguments.batch = static_cast<int32_t>(inputs.batch);
    arguments.kv_heads = static_cast<int32_t>(attributes_.kv_heads);
    arguments.head_size = static_cast<int32_t>(inputs.head_size);
    arguments.sequence = static_cast<int32_t>(inputs.sequence);
    arguments.past = past ? past->raw_data() : nullptr;
    arguments.past_tokens = static_cast<int32_t>(inputs.past_tokens);
    arguments.present = present.mutable_raw_data();
    arguments.present_tokens = static_cast<int32_t>(tokens);
    arguments.lengths = inputs.tokens.lengths;
    LAMINA_RETURN_IF_ERROR(Launch(context.stream(), "attention_past", &KernelApi::attention_past, arguments));
    return plane;
  }

  Status DescribeTokens(KernelContext& context, Inputs& inputs) const {
    AttentionTokensArguments& tokens = inputs.tokens;
    tokens.type = ElementTypeOf(inputs.type);
    tokens.batch = static_cast<int32_t>(inputs.batch);
    tokens.sequence = static_cast<int32_t>(inputs.sequence);
    tokens.heads = static_cast<int32_t>(attributes_.heads);
    tokens.kv_heads = static_cast<int32_t>(attributes_.kv_heads);
    tokens.head_size = tokens.value_head_size = static_cast<int32_t>(inputs.head_size);
    tokens.norm_epsilon = attributes_.norm_epsilon;
    AttentionArguments& attention = inputs.attention;
    attention.query = tokens.query;
    attention.query_strides = tokens.query_strides;
    if (attributes_.do_rotary || tokens.q_norm) {
      const int64_t hidden = attributes_.heads * inputs.head_size;
      const int64_t bytes = inputs.batch * inputs.sequence * hidden * ElementBytesOf(inputs.type);
      LAMINA_ASSIGN_OR_RETURN(tokens.queries, context.GetScratchBuffer(kQueries, static_cast<size_t>(bytes)));
      attention.query = tokens.queries;
      attention.query_strides = {inputs.sequence * hidden, hidden, inputs.head_size};
    }
    return Status();
  }

  Status DescribeAttention(KernelContext& context, Inputs& inputs, Tensor& output) const {
    AttentionArguments& attention = inputs.attention;
    const AttentionTokensArguments& tokens = inputs.tokens;
    attention.type = tokens.type;
    attention.batch = tokens.batch;
    attention.sequence = tokens.sequence;
    attention.heads = tokens.heads;
    attention.kv_heads = tokens.kv_heads;
    attention.head_size = attention.value_head_size = tokens.head_size;
    const int64_t hidden = attributes_.heads * inputs.head_size;
    attention.out = output.mutable_raw_data();
    attention.out_strides = {inputs.sequence * hidden, hidden, inputs.head_size};
    attention.scale = attributes_.scale != 0.0f ? attributes_.scale
                                                : 1.0f / std::sqrt(static_cast<float>(inputs.head_size));
    attention.softcap = attributes_.softcap;
    attention.window_left = attributes_.window > 0 ? static_cast<int32_t>(attributes_.window - 1) : -1;
    attention.window_right = attributes_.causal ? 0 : -1;
    attention.zero_sink = attributes_.smooth_softmax ? 1 : 0;
    const int64_t count = inputs.batch * inputs.sequence;
    attention.splits = SplitsFor(count, attributes_.kv_heads, multiprocessors());
    const int64_t bytes =
        PartialsBytes(count, attributes_.heads, inputs.head_size, static_cast<int>(attention.splits));
    if (bytes > 0) {
      LAMINA_ASSIGN_OR_RETURN(void* partials,
                              context.GetScratchBuffer(kPartials, static_cast<size_t>(bytes)));
      attention.workspace = static_cast<float*>(partials);
    }
    return Status();
  }

  static Status CheckShape(const char* name, const Tensor& tensor, const Shape& expected) {
    if (tensor.shape() == expected) return Status();
    return InvalidArgumentError("{} must have shape {}, found {}", name, expected.ToString(),
                                tensor.shape().ToString());
  }

  Attributes attributes_;
};

}  // namespace

void RegisterGroupQueryAttention(KernelRegistrar& registrar) {
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16}) {
    KernelDef def("GroupQueryAttention", kMsDomain);
    for (const int i : {0, 1, 2, 3, 4, 7, 8, 10, 11, 14, 15}) def.Input(i, type);
    def.Input(kSeqlens, DataType::kInt32).Input(kTotalLength, DataType::kInt32).HostInput(kTotalLength);
    def.Input(kPositionIds, DataType::kInt64);
    for (const int i : {0, 1, 2}) def.Output(i, type);
    def.KvCache(kPastKey, kPastValue, kPresentKey, kPresentValue);
    registrar.Add<GroupQueryAttention>(std::move(def));
  }
}

}  // namespace lamina::cuda
