// LinearAttention: attention as a recurrence over a matrix state for each head.
//
//   state [dk, dv]; for each token, by update_rule:
//     linear       state += k v^T
//     gated        state = exp(decay) state + k v^T
//     delta        state += k (beta (v - state^T k))^T
//     gated_delta  state = exp(decay) state, then as delta
//   output = scale q^T state
#include <cmath>

#include "providers/cpu/kernel_util.h"
#include "providers/cpu/simd/vec_math.h"
#include "providers/cpu/workspace_bounds.h"

namespace lamina {
namespace {

// Scratch slots, all of floats.
constexpr int kState = 0;  // [batch, kv_heads, dk, dv]
constexpr int kRow = 1;    // for each (batch, kv head): one token's k, decay, and two rows of dv, and q

bool HasRule(std::string_view rule, std::string_view part) {
  return rule.find(part) != std::string_view::npos;
}

class LinearAttention : public Kernel {
 public:
  explicit LinearAttention(const NodeInfo& node)
      : q_heads_(node.Int("q_num_heads", 1)),
        kv_heads_(node.Int("kv_num_heads", 1)),
        gated_(HasRule(Rule(node), "gated")),
        delta_(HasRule(Rule(node), "delta")),
        scale_(node.Float("scale", 0)) {}
  static Status Validate(const NodeInfo& node) {
    const std::string_view rule = Rule(node);
    if (rule != "linear" && rule != "gated" && rule != "delta" && rule != "gated_delta") {
      return InvalidModelError("unknown update_rule '{}'", rule);
    }
    const int64_t q = node.Int("q_num_heads", 1);
    const int64_t kv = node.Int("kv_num_heads", 1);
    if (q < 1 || kv < 1 || q % kv != 0) return InvalidModelError("{} query heads for {} key heads", q, kv);
    return Status();
  }
  Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                      WorkspaceRequirements& requirements) const override {
    return Workspace(node, requirements);
  }
  static Status Workspace(const NodeInfo& node, WorkspaceRequirements& requirements) {
    LAMINA_ASSIGN_OR_RETURN(const Shape key, LargestInputShape(node, 1));
    LAMINA_ASSIGN_OR_RETURN(const Shape value, LargestInputShape(node, 2));
    if (key.rank() != 3 || value.rank() != 3) return InvalidModelError("key and value must have three axes");
    const int64_t heads = std::max<int64_t>(1, node.Int("kv_num_heads", 1));
    const int64_t dk = key[2] / heads;
    const int64_t dv = value[2] / heads;
    LAMINA_RETURN_IF_ERROR(
        requirements.Add(kState, static_cast<size_t>(key[0] * heads * dk * dv) * sizeof(float)));
    return requirements.Add(kRow, static_cast<size_t>(key[0] * heads * RowFloats(dk, dv)) * sizeof(float));
  }

  // Inputs query [batch, tokens, q_heads dk], key, value [batch, tokens, kv_heads dv], past_state, decay
  // [batch, tokens, kv_heads (dk)], beta [batch, tokens, kv_heads or 1].
  Status Compute(KernelContext& context) const override {
    const Tensor* in[6] = {};
    for (int i = 0; i < 3; ++i) {
      LAMINA_ASSIGN_OR_RETURN(in[i], RequireInput(context, i));
      if (in[i]->shape().rank() != 3)
        return InvalidArgumentError("[batch, tokens, width] expected for input {}", i);
    }
    for (int i = 3; i < 6; ++i) in[i] = context.Input(i);
    const int64_t batch = in[0]->shape()[0];
    const int64_t tokens = in[0]->shape()[1];
    const int64_t dk = in[1]->shape()[2] / kv_heads_;
    const int64_t dv = in[2]->shape()[2] / kv_heads_;
    const int64_t rows = batch * tokens;
    if (in[0]->shape()[2] != q_heads_ * dk || in[1]->num_elements() != rows * kv_heads_ * dk ||
        in[2]->num_elements() != rows * kv_heads_ * dv || (gated_ && !in[4]) || (delta_ && !in[5])) {
      return InvalidArgumentError("query {}, key {} and value {} do not fit {} and {} heads",
                                  in[0]->shape().ToString(), in[1]->shape().ToString(),
                                  in[2]->shape().ToString(), q_heads_, kv_heads_);
    }
    const int64_t decay_width = gated_ && rows > 0 ? in[4]->num_elements() / rows : kv_heads_;
    const int64_t beta_width = delta_ && rows > 0 ? in[5]->num_elements() / rows : kv_heads_;
    if ((decay_width != kv_heads_ && decay_width != kv_heads_ * dk) ||
        (beta_width != kv_heads_ && beta_width != 1) ||
        (in[3] && in[3]->num_elements() != batch * kv_heads_ * dk * dv)) {
      return InvalidArgumentError("decay, beta or past_state do not fit {} heads of {} and {}", kv_heads_, dk,
                                  dv);
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, {batch, tokens, q_heads_ * dv}));
    LAMINA_ASSIGN_OR_RETURN(Tensor * present, context.Output(1, {batch, kv_heads_, dk, dv}));
    for (const Tensor* state : {in[3], static_cast<const Tensor*>(present)}) {
      if (!state || state->type() == in[0]->type()) continue;
      return UnsupportedError("the state is {}, the tokens are {}: both must have one type",
                              DataTypeName(state->type()), DataTypeName(in[0]->type()));
    }
    LAMINA_ASSIGN_OR_RETURN(float* states, GetScratch<float>(context, kState, batch * kv_heads_ * dk * dv));
    LAMINA_ASSIGN_OR_RETURN(float* buffers,
                            GetScratch<float>(context, kRow, batch * kv_heads_ * RowFloats(dk, dv)));
    const DataType type = in[0]->type();
    const int64_t bytes = ElementBytes(type);
    const auto read = [&](const Tensor& tensor, int64_t first, int64_t count, float* target) {
      ConvertToFloat(type, static_cast<const std::byte*>(tensor.raw_data()) + first * bytes, target, count);
    };
    const float scale = scale_ != 0 ? scale_ : 1 / std::sqrt(static_cast<float>(dk));
    const int64_t group = q_heads_ / kv_heads_;
    context.threads().ParallelFor(
        batch * kv_heads_, GrainOf(tokens * dk * dv * 4), [&](int64_t begin, int64_t end, int) {
          for (int64_t unit = begin; unit < end; ++unit) {
            const int64_t b = unit / kv_heads_;
            const int64_t head = unit % kv_heads_;
            float* state = states + unit * dk * dv;
            float* k = buffers + unit * RowFloats(dk, dv);
            float* decay = k + dk;
            float* q = decay + dk;
            float* write = q + dk;
            float* result = write + dv;
            if (in[3]) {
              read(*in[3], unit * dk * dv, dk * dv, state);
            } else {
              std::fill_n(state, dk * dv, 0.0f);
            }
            for (int64_t t = b * tokens; t < (b + 1) * tokens; ++t) {
              read(*in[1], (t * kv_heads_ + head) * dk, dk, k);
              read(*in[2], (t * kv_heads_ + head) * dv, dv, write);
              if (gated_) {
                if (decay_width == kv_heads_) {
                  read(*in[4], t * kv_heads_ + head, 1, decay);
                  std::fill_n(decay, dk, decay[0]);
                } else {
                  read(*in[4], (t * kv_heads_ + head) * dk, dk, decay);
                }
                for (int64_t i = 0; i < dk; ++i) {
                  const float factor = std::exp(decay[i]);
                  for (int64_t j = 0; j < dv; ++j) state[i * dv + j] *= factor;
                }
              }
              if (delta_) {
                float beta = 0;
                read(*in[5], beta_width == 1 ? t : t * kv_heads_ + head, 1, &beta);
                std::fill_n(result, dv, 0.0f);
                for (int64_t i = 0; i < dk; ++i) {
                  for (int64_t j = 0; j < dv; ++j) result[j] += k[i] * state[i * dv + j];
                }
                for (int64_t j = 0; j < dv; ++j) write[j] = beta * (write[j] - result[j]);
              }
              for (int64_t i = 0; i < dk; ++i) {
                for (int64_t j = 0; j < dv; ++j) state[i * dv + j] += k[i] * write[j];
              }
              for (int64_t g = 0; y && g < group; ++g) {
                const int64_t q_head = head * group + g;
                read(*in[0], (t * q_heads_ + q_head) * dk, dk, q);
                std::fill_n(result, dv, 0.0f);
                for (int64_t i = 0; i < dk; ++i) {
                  for (int64_t j = 0; j < dv; ++j) result[j] += q[i] * state[i * dv + j];
                }
                for (int64_t j = 0; j < dv; ++j) result[j] *= scale;
                ConvertFromFloat(
                    type, result,
                    static_cast<std::byte*>(y->mutable_raw_data()) + (t * q_heads_ + q_head) * dv * bytes,
                    dv);
              }
            }
            if (present) {
              ConvertFromFloat(type, state,
                               static_cast<std::byte*>(present->mutable_raw_data()) + unit * dk * dv * bytes,
                               dk * dv);
            }
          }
        });
    return Status();
  }

 private:
  static std::string_view Rule(const NodeInfo& node) { return node.String("update_rule", "gated_delta"); }
  static int64_t RowFloats(int64_t dk, int64_t dv) { return 3 * dk + 2 * dv; }

  int64_t q_heads_;
  int64_t kv_heads_;
  bool gated_;
  bool delta_;
  float scale_;
};

}  // namespace

void RegisterLinearAttentionKernels(KernelRegistry& registry) {
  for (const std::string_view domain : {std::string_view(), kMsDomain}) {
    registry.Add(KernelDef("LinearAttention", domain)
                     .Since(domain.empty() ? 27 : 1)
                     .Input(0, kHalfAndFloatTypes)
                     .Input(1, kHalfAndFloatTypes)
                     .Input(2, kHalfAndFloatTypes)
                     .Output(0, kHalfAndFloatTypes),
                 CreateKernel<LinearAttention>, EstimateWorkspace<LinearAttention>);
  }
}

}  // namespace lamina
