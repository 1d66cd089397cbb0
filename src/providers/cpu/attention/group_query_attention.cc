// GroupQueryAttention (com.microsoft): attention of grouped query heads with rotary embedding and KV cache in
// one node. Validates and lays out its inputs, appends the run's keys and values to the cache, and lets the
// attention core do the rest.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "providers/cpu/attention/attention.h"
#include "providers/cpu/attention/gqa_cache.h"
#include "providers/cpu/attention/gqa_inputs.h"
#include "providers/cpu/attention/kv_address.h"
#include "providers/cpu/cpu_kernels.h"
#include "providers/cpu/gemm/gemm.h"
#include "providers/cpu/rows/row_kernels.h"
#include "providers/cpu/workspace_bounds.h"

namespace lamina {
namespace {

// Workspace slots.
constexpr int kCore = 0;     // of the attention core
constexpr int kQueries = 1;  // normalised and rotated queries [batch, sequence, heads, head_size]
constexpr int kStaging = 2;  // keys, then values, of a windowed cache while they are more than it holds

class GroupQueryAttention : public Kernel {
 public:
  explicit GroupQueryAttention(const NodeInfo& node)
      : isa_(ActiveIsa()),
        rows_(RowKernelsFor(isa_).For(node.input_type(0).element)),
        attributes_(GqaAttributes::Of(node)),
        lanes_(WorkerLanes(node)) {}

  static Status Validate(const NodeInfo& node) { return GqaAttributes::Validate(node); }

  static Status Workspace(const NodeInfo& node, WorkspaceRequirements& requirements) {
    const GqaAttributes attributes = GqaAttributes::Of(node);
    LAMINA_ASSIGN_OR_RETURN(const Shape query, LargestInputShape(node, GqaAttributes::kQuery));
    if (query.rank() != 3) return Status();  // Compute reports it
    const bool packed = !node.HasInput(GqaAttributes::kKey);
    const int64_t head_size = attributes.HeadSize(query[2], packed);
    LAMINA_RETURN_IF_ERROR(requirements.Add(
        kCore, AttentionWorkspaceBytes(attributes.Limits(query[0], query[1], head_size, WorkerLanes(node)))));
    const int64_t element_bytes = DataTypeBits(node.input_type(0).element) / 8;
    const int64_t token_bytes = attributes.num_heads * head_size * element_bytes;
    if (attributes.do_rotary || node.HasInput(GqaAttributes::kQNorm)) {
      LAMINA_RETURN_IF_ERROR(
          requirements.Add(kQueries, static_cast<size_t>(query[0] * query[1] * token_bytes)));
    }
    if (attributes.sliding_window_cache) {
      LAMINA_ASSIGN_OR_RETURN(const Shape past, LargestInputShape(node, GqaAttributes::kPastKey));
      if (past.rank() != 4) return Status();
      LAMINA_RETURN_IF_ERROR(
          requirements.Add(kStaging, 2 * StagingPlaneBytes(past[0], attributes.kv_num_heads,
                                                           past[2] + query[1], head_size, element_bytes)));
    }
    return Status();
  }
  Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                      WorkspaceRequirements& requirements) const override {
    return Workspace(node, requirements);
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const GqaInputs inputs, GqaInputs::Parse(context, attributes_));
    const AttentionLimits limits =
        attributes_.Limits(inputs.batch, inputs.sequence, inputs.head_size, lanes_);
    LAMINA_ASSIGN_OR_RETURN(void* core, context.GetScratchBuffer(kCore, AttentionWorkspaceBytes(limits)));
    auto* sequences = static_cast<AttentionSequence*>(core);

    GqaCache cache;
    LAMINA_RETURN_IF_ERROR(OpenCache(context, inputs, sequences, cache));

    AttentionParams params;
    params.type = inputs.type;
    params.query = inputs.query;
    params.q_token_stride = inputs.q_token_stride;
    params.q_head_stride = inputs.head_size;
    if (attributes_.do_rotary || inputs.q_norm) {
      const int64_t bytes =
          inputs.batch * inputs.sequence * attributes_.num_heads * inputs.head_size * inputs.element_bytes;
      LAMINA_ASSIGN_OR_RETURN(void* queries, context.GetScratchBuffer(kQueries, static_cast<size_t>(bytes)));
      params.query = queries;
      params.q_token_stride = attributes_.num_heads * inputs.head_size;
      PrepareTokens(context.threads(), inputs, cache, static_cast<char*>(queries));
    } else {
      PrepareTokens(context.threads(), inputs, cache, nullptr);
    }

    const Shape output_shape{inputs.batch, inputs.sequence, attributes_.num_heads * inputs.head_size};
    LAMINA_ASSIGN_OR_RETURN(Tensor * output, context.Output(0, output_shape));
    params.output = output->mutable_raw_data();
    params.out_token_stride = attributes_.num_heads * inputs.head_size;
    params.out_head_stride = inputs.head_size;
    params.heads = attributes_.num_heads;
    params.kv = cache.view;
    params.scale = attributes_.scale != 0.0f ? attributes_.scale
                                             : 1.0f / std::sqrt(static_cast<float>(inputs.head_size));
    params.softcap = attributes_.softcap;
    params.window_left = attributes_.local_window_size > 0 ? attributes_.local_window_size - 1 : -1;
    const bool causal = attributes_.causal || (attributes_.mask_is_causal && inputs.EveryQuerySeesAKey());
    params.window_right = causal ? 0 : -1;
    params.biases[0] = inputs.bias;
    params.sinks = inputs.head_sink;
    params.sinks_type = inputs.type;
    params.zero_sink = attributes_.smooth_softmax;
    params.sequences = sequences;
    params.batch = inputs.batch;
    RunAttention(context.threads(), isa_, params, limits, core);

    LAMINA_RETURN_IF_ERROR(WriteScores(context, inputs, params));
    CloseCache(context.threads(), inputs, cache);
    return Status();
  }

 private:
  // The view that keys and values are appended to, and where each sequence stands in it.
  Status OpenCache(KernelContext& context, const GqaInputs& inputs, AttentionSequence* sequences,
                   GqaCache& cache) const {
    cache.sequences = sequences;
    if (const KvView* view = context.kv_view()) return cache.OpenBound(*view, inputs);
    return cache.OpenTensors(context, inputs, attributes_,
                             [&](size_t bytes) { return context.GetScratchBuffer(kStaging, bytes); });
  }

  void CloseCache(ThreadPool& threads, const GqaInputs& inputs, const GqaCache& cache) const {
    if (cache.staged) cache.KeepLastTokens(threads, inputs, attributes_);
  }

  // For every token: queries normalised and rotated to `queries` (null: they stay as they are), keys likewise
  // to the cache, values copied to the cache.
  void PrepareTokens(ThreadPool& threads, const GqaInputs& inputs, const GqaCache& cache,
                     char* queries) const {
    const int64_t q_heads = attributes_.num_heads;
    const int64_t kv_heads = attributes_.kv_num_heads;
    const int64_t head_bytes = inputs.head_size * inputs.element_bytes;
    const double token_ns = static_cast<double>((q_heads + 2 * kv_heads) * inputs.head_size) * 0.25;
    threads.ParallelFor(inputs.batch * inputs.sequence, GrainFor(token_ns),
                        [&](int64_t begin, int64_t end, int) {
                          for (int64_t token = begin; token < end; ++token) {
                            const int64_t b = token / inputs.sequence;
                            const int64_t s = token % inputs.sequence;
                            const int64_t position = inputs.PositionOf(b, s, cache.absolute_past(b));
                            if (queries) {
                              const char* source = static_cast<const char*>(inputs.query) +
                                                   token * inputs.q_token_stride * inputs.element_bytes;
                              for (int64_t h = 0; h < q_heads; ++h) {
                                PrepareHead(inputs, inputs.q_norm, position, source + h * head_bytes,
                                            queries + (token * q_heads + h) * head_bytes);
                              }
                            }
                            const int64_t slot = cache.SlotOf(b, s);
                            if (slot < 0) continue;
                            const int64_t kv_offset = token * inputs.kv_token_stride * inputs.element_bytes;
                            for (int64_t h = 0; h < kv_heads; ++h) {
                              PrepareHead(inputs, inputs.k_norm, position,
                                          static_cast<const char*>(inputs.key) + kv_offset + h * head_bytes,
                                          KvTokenAddress(cache.view, cache.view.key, b, h, slot));
                              std::memcpy(KvTokenAddress(cache.view, cache.view.value, b, h, slot),
                                          static_cast<const char*>(inputs.value) + kv_offset + h * head_bytes,
                                          static_cast<size_t>(head_bytes));
                            }
                          }
                        });
  }

  void PrepareHead(const GqaInputs& inputs, const void* norm_weight, int64_t position, const char* source,
                   char* target) const {
    if (norm_weight) {
      NormalizeRow row;
      row.count = inputs.head_size;
      row.x = source;
      row.scale = norm_weight;
      row.y = target;
      row.epsilon = attributes_.qk_norm_epsilon;
      row.rms = true;
      rows_.normalize(row);
      source = target;
    }
    if (attributes_.do_rotary) {
      RotateHead head;
      head.x = source;
      head.y = target;
      const int64_t offset = position * inputs.rotary_pairs * inputs.element_bytes;
      head.cos = static_cast<const char*>(inputs.cos_cache) + offset;
      head.sin = static_cast<const char*>(inputs.sin_cache) + offset;
      head.head_size = inputs.head_size;
      head.pairs = inputs.rotary_pairs;
      head.interleaved = attributes_.rotary_interleaved;
      rows_.rotate(head);
    } else if (source != target) {
      std::memcpy(target, source, static_cast<size_t>(inputs.head_size * inputs.element_bytes));
    }
  }

  Status WriteScores(KernelContext& context, const GqaInputs& inputs, const AttentionParams& params) const {
    constexpr int kScores = 3;
    if (context.num_outputs() <= kScores || !context.HasOutput(kScores)) return Status();
    const Shape shape{inputs.batch, attributes_.num_heads, inputs.sequence, inputs.total};
    LAMINA_ASSIGN_OR_RETURN(Tensor * scores, context.Output(kScores, shape));
    const ScoreStage stage = attributes_.qk_output == 2 ? ScoreStage::kSoftmax : ScoreStage::kMasked;
    WriteAttentionScores(context.threads(), params, stage, 0.0f, inputs.total, scores->mutable_raw_data());
    return Status();
  }

  CpuIsa isa_;
  const RowKernels::OfType& rows_;
  GqaAttributes attributes_;
  int lanes_;
};

}  // namespace

void RegisterGroupQueryAttention(KernelRegistry& registry) {
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16}) {
    KernelDef def("GroupQueryAttention", kMsDomain);
    for (const int i : {0, 1, 2, 3, 4, 7, 8, 10, 11, 14, 15}) def.Input(i, type);
    def.Input(5, DataType::kInt32).Input(6, DataType::kInt32).Input(9, DataType::kInt64);
    for (const int i : {0, 1, 2, 3}) def.Output(i, type);
    def.HostInput(GqaAttributes::kTotalLength);  // sizes outputs
    def.KvCache(3, 4, 1, 2);
    registry.Add(std::move(def), CreateKernel<GroupQueryAttention>, EstimateWorkspace<GroupQueryAttention>);
  }
}

}  // namespace lamina
