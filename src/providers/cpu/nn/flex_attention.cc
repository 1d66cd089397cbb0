// ai.onnx.preview FlexAttention: softmax(score_mod(scale q k^T)) v, with optional graphs that change the
// scores before and the probabilities after the softmax.
#include <cmath>

#include "providers/cpu/kernel_util.h"
#include "providers/cpu/tensor/element_convert.h"
#include "providers/cpu/workspace_bounds.h"

namespace lamina {
namespace {

constexpr int kScores = 0;  // scratch slot: [batch, heads, queries, keys] of float or double

class FlexAttention : public Kernel {
 public:
  explicit FlexAttention(const NodeInfo& node)
      : scale_(node.Float("scale", 0)),
        score_mod_(node.FindAttribute("score_mod") != nullptr),
        prob_mod_(node.FindAttribute("prob_mod") != nullptr) {}
  Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                      WorkspaceRequirements& requirements) const override {
    return Workspace(node, requirements);
  }
  static Status Workspace(const NodeInfo& node, WorkspaceRequirements& requirements) {
    LAMINA_ASSIGN_OR_RETURN(const Shape q, LargestInputShape(node, 0));
    LAMINA_ASSIGN_OR_RETURN(const Shape k, LargestInputShape(node, 1));
    if (q.rank() != 4 || k.rank() != 4) return InvalidModelError("Q and K must have four axes");
    return requirements.Add(kScores, static_cast<size_t>(q[0] * q[1] * q[2] * k[2]) * sizeof(double));
  }

  // Q [batch, heads, queries, dk], K [batch, kv_heads, keys, dk], V [batch, kv_heads, keys, dv].
  Status Compute(KernelContext& context) const override {
    const Tensor* in[3] = {};
    for (int i = 0; i < 3; ++i) {
      LAMINA_ASSIGN_OR_RETURN(in[i], RequireInput(context, i));
      if (in[i]->shape().rank() != 4) return InvalidArgumentError("input {} must have four axes", i);
    }
    const Shape& q = in[0]->shape();
    const Shape& k = in[1]->shape();
    const Shape& v = in[2]->shape();
    if (k[0] != q[0] || v[0] != q[0] || v[1] != k[1] || v[2] != k[2] || k[3] != q[3] || k[1] < 1 ||
        q[1] % k[1] != 0) {
      return InvalidArgumentError("Q {}, K {} and V {} do not fit together", q.ToString(), k.ToString(),
                                  v.ToString());
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, {q[0], q[1], q[2], v[3]}));
    if (!y) return Status();
    Status status;
    DispatchType<float, double, Float16, Bfloat16>(in[0]->type(), [&](auto tag) {
      status = Run<typename decltype(tag)::type>(context, *in[0], *in[1], *in[2], *y);
    });
    return status;
  }

 private:
  template <typename T>
  Status Run(KernelContext& context, const Tensor& q, const Tensor& k, const Tensor& v, Tensor& y) const {
    using C = ComputeType<T>;
    const Shape& qs = q.shape();
    const int64_t keys = k.shape()[2];
    const int64_t dk = qs[3];
    const int64_t dv = v.shape()[3];
    const int64_t rows = qs[0] * qs[1] * qs[2];
    const Shape score_shape{qs[0], qs[1], qs[2], keys};
    LAMINA_ASSIGN_OR_RETURN(C * memory, GetScratch<C>(context, kScores, rows * keys));
    Tensor scores =
        Tensor::View(DataTypeOf<C>, score_shape, memory, static_cast<uint64_t>(rows * keys) * sizeof(C));
    const C scale = scale_ != 0 ? static_cast<C>(scale_) : 1 / std::sqrt(static_cast<C>(dk));
    // The matrix of K or V that serves query row `row`.
    const auto kv_matrix = [&](int64_t row) {
      const int64_t head = row / qs[2];
      return head / qs[1] * k.shape()[1] + head % qs[1] / (qs[1] / k.shape()[1]);
    };
    context.threads().ParallelFor(rows, GrainOf(keys * dk), [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        const T* query = q.data<T>() + row * dk;
        const T* key = k.data<T>() + kv_matrix(row) * keys * dk;
        for (int64_t j = 0; j < keys; ++j) {
          C sum = 0;
          for (int64_t i = 0; i < dk; ++i) sum += static_cast<C>(query[i]) * static_cast<C>(key[j * dk + i]);
          memory[row * keys + j] = sum * scale;
        }
      }
    });
    LAMINA_RETURN_IF_ERROR(Modify(context, score_mod_, "score_mod", scores));
    context.threads().ParallelFor(rows, GrainOf(32 * keys), [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        C* line = memory + row * keys;
        C largest = -std::numeric_limits<C>::infinity();
        for (int64_t j = 0; j < keys; ++j) largest = std::max(largest, line[j]);
        if (std::isinf(largest)) largest = 0;
        C total = 0;
        for (int64_t j = 0; j < keys; ++j) total += line[j] = std::exp(line[j] - largest);
        for (int64_t j = 0; total > 0 && j < keys; ++j) line[j] /= total;
      }
    });
    LAMINA_RETURN_IF_ERROR(Modify(context, prob_mod_, "prob_mod", scores));
    context.threads().ParallelFor(rows, GrainOf(keys * dv), [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        const T* value = v.data<T>() + kv_matrix(row) * keys * dv;
        for (int64_t i = 0; i < dv; ++i) {
          C sum = 0;
          for (int64_t j = 0; j < keys; ++j)
            sum += memory[row * keys + j] * static_cast<C>(value[j * dv + i]);
          y.mutable_data<T>()[row * dv + i] = static_cast<T>(sum);
        }
      }
    });
    return Status();
  }

  // Replaces the scores by what the graph makes of them.
  static Status Modify(KernelContext& context, bool present, std::string_view graph, Tensor& scores) {
    if (!present) return Status();
    std::vector<Value> outputs;
    const Value input(scores);
    LAMINA_RETURN_IF_ERROR(context.RunSubgraph(graph, {&input, 1}, &outputs));
    if (outputs.size() != 1 || !outputs[0].is_tensor() || !(outputs[0].tensor().shape() == scores.shape()) ||
        !IsConvertible(outputs[0].tensor().type())) {
      return InvalidArgumentError("the graph {} must give one tensor of shape {}", graph,
                                  scores.shape().ToString());
    }
    const Tensor& modified = outputs[0].tensor();
    if (!modified.SharesMemoryWith(scores)) {
      ConvertElements(modified.type(), modified.raw_data(), scores.type(), scores.mutable_raw_data(), 0,
                      scores.num_elements());
    }
    return Status();
  }

  float scale_;
  bool score_mod_;
  bool prob_mod_;
};

}  // namespace

void RegisterFlexAttentionKernels(KernelRegistry& registry) {
  registry.Add(KernelDef("FlexAttention", "ai.onnx.preview")
                   .Input(0, kFloatTypes)
                   .Input(1, kFloatTypes)
                   .Input(2, kFloatTypes)
                   .Output(0, kFloatTypes),
               CreateKernel<FlexAttention>, EstimateWorkspace<FlexAttention>);
}

}  // namespace lamina
