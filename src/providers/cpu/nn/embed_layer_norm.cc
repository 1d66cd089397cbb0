// com.microsoft EmbedLayerNormalization: sums word, position and segment embeddings and normalises each
// token.
#include <cmath>

#include "providers/cpu/kernel_util.h"
#include "providers/cpu/simd/vec_math.h"
#include "providers/cpu/workspace_bounds.h"

namespace lamina {
namespace {

constexpr int kRows = 0;  // scratch slot: two rows of `hidden` floats for each token

class EmbedLayerNormalization : public Kernel {
 public:
  explicit EmbedLayerNormalization(const NodeInfo& node) : epsilon_(node.Float("epsilon", 1e-12f)) {}
  Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                      WorkspaceRequirements& requirements) const override {
    return Workspace(node, requirements);
  }
  static Status Workspace(const NodeInfo& node, WorkspaceRequirements& requirements) {
    LAMINA_ASSIGN_OR_RETURN(const int64_t tokens, LargestInputElements(node, 0));
    LAMINA_ASSIGN_OR_RETURN(const Shape gamma, LargestInputShape(node, 5));
    return requirements.Add(kRows, static_cast<size_t>(tokens * 2 * gamma.num_elements()) * sizeof(float));
  }

  // Inputs input_ids [batch, length], segment_ids, word, position and segment embeddings, gamma, beta, mask,
  // position_ids.
  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* ids, RequireInput(context, 0));
    const Tensor* segment_ids = context.Input(1);
    LAMINA_ASSIGN_OR_RETURN(const Tensor* word, RequireInput(context, 2));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* position, RequireInput(context, 3));
    const Tensor* segment = context.Input(4);
    LAMINA_ASSIGN_OR_RETURN(const Tensor* gamma, RequireInput(context, 5));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* beta, RequireInput(context, 6));
    const Tensor* mask = context.Input(7);
    const Tensor* position_ids = context.Input(8);
    if (ids->shape().rank() != 2) return InvalidArgumentError("input_ids {}", ids->shape().ToString());
    const int64_t batch = ids->shape()[0];
    const int64_t length = ids->shape()[1];
    const int64_t hidden = gamma->num_elements();
    const int64_t tokens = batch * length;
    for (const Tensor* table : {word, position, segment}) {
      if (table && (table->shape().rank() != 2 || table->shape()[1] != hidden)) {
        return InvalidArgumentError("an embedding {} for a hidden size of {}", table->shape().ToString(),
                                    hidden);
      }
    }
    if (beta->num_elements() != hidden || (segment_ids != nullptr) != (segment != nullptr) ||
        (segment_ids && segment_ids->num_elements() != tokens) || (mask && mask->num_elements() != tokens) ||
        (position_ids && position_ids->num_elements() != tokens && position_ids->num_elements() != length)) {
      return InvalidArgumentError("the inputs do not fit {} sequences of {} tokens", batch, length);
    }
    const auto position_of = [&](int64_t token) -> int64_t {
      if (!position_ids) return token % length;
      return position_ids->data<int32_t>()[token % position_ids->num_elements()];
    };
    for (int64_t token = 0; token < tokens; ++token) {
      const int64_t w = ids->data<int32_t>()[token];
      const int64_t p = position_of(token);
      const int64_t s = segment_ids ? segment_ids->data<int32_t>()[token] : 0;
      if (w < 0 || w >= word->shape()[0] || p < 0 || p >= position->shape()[0] ||
          (segment && (s < 0 || s >= segment->shape()[0]))) {
        return InvalidArgumentError("token {}: word {}, position {} or segment {} is out of range", token, w,
                                    p, s);
      }
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, {batch, length, hidden}));
    LAMINA_ASSIGN_OR_RETURN(Tensor * mask_index, context.Output(1, {batch}));
    LAMINA_ASSIGN_OR_RETURN(Tensor * sums, context.Output(2, {batch, length, hidden}));
    for (int64_t b = 0; mask_index && b < batch; ++b) {
      int32_t count = 0;
      for (int64_t t = 0; mask && t < length; ++t)
        count += mask->data<int32_t>()[b * length + t] == 1 ? 1 : 0;
      mask_index->mutable_data<int32_t>()[b] = count;
    }
    LAMINA_ASSIGN_OR_RETURN(float* scratch, GetScratch<float>(context, kRows, tokens * 2 * hidden));
    const DataType type = word->type();
    const int64_t bytes = ElementBytes(type);
    const auto row_of = [&](const Tensor& table, int64_t row, float* target) {
      ConvertToFloat(type, static_cast<const std::byte*>(table.raw_data()) + row * hidden * bytes, target,
                     hidden);
    };
    const auto store = [&](Tensor& tensor, int64_t token, const float* row) {
      ConvertFromFloat(type, row, static_cast<std::byte*>(tensor.mutable_raw_data()) + token * hidden * bytes,
                       hidden);
    };
    context.threads().ParallelFor(tokens, GrainOf(12 * hidden), [&](int64_t begin, int64_t end, int) {
      for (int64_t token = begin; token < end; ++token) {
        float* sum = scratch + token * 2 * hidden;
        float* row = sum + hidden;
        row_of(*word, ids->data<int32_t>()[token], sum);
        row_of(*position, position_of(token), row);
        for (int64_t i = 0; i < hidden; ++i) sum[i] += row[i];
        if (segment) {
          row_of(*segment, segment_ids->data<int32_t>()[token], row);
          for (int64_t i = 0; i < hidden; ++i) sum[i] += row[i];
        }
        if (sums) store(*sums, token, sum);
        double mean = 0;
        for (int64_t i = 0; i < hidden; ++i) mean += sum[i];
        mean /= static_cast<double>(hidden);
        double variance = 0;
        for (int64_t i = 0; i < hidden; ++i) variance += (sum[i] - mean) * (sum[i] - mean);
        const double deviation = std::sqrt(variance / static_cast<double>(hidden) + epsilon_);
        for (int64_t i = 0; i < hidden; ++i) sum[i] = static_cast<float>((sum[i] - mean) / deviation);
        row_of(*gamma, 0, row);
        for (int64_t i = 0; i < hidden; ++i) sum[i] *= row[i];
        row_of(*beta, 0, row);
        for (int64_t i = 0; i < hidden; ++i) sum[i] += row[i];
        if (out) store(*out, token, sum);
      }
    });
    return Status();
  }

 private:
  double epsilon_;
};

}  // namespace

void RegisterEmbedLayerNormKernels(KernelRegistry& registry) {
  registry.Add(KernelDef("EmbedLayerNormalization", kMsDomain)
                   .Input(0, DataType::kInt32)
                   .Input(2, kHalfAndFloatTypes)
                   .Output(0, kHalfAndFloatTypes),
               CreateKernel<EmbedLayerNormalization>, EstimateWorkspace<EmbedLayerNormalization>);
}

}  // namespace lamina
