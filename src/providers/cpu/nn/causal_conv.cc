// CausalConvWithState: a depthwise convolution over tokens that sees the past only; its state is the last
// kernel - 1 tokens.
#include "providers/cpu/kernel_util.h"
#include "providers/cpu/simd/vec_math.h"
#include "providers/cpu/workspace_bounds.h"

namespace lamina {
namespace {

constexpr int kPadded =
    0;  // scratch slot: past and input of each channel [batch, channels, kernel - 1 + length]

class CausalConvWithState : public Kernel {
 public:
  explicit CausalConvWithState(const NodeInfo& node) : silu_(Activation(node) != "none") {}
  static Status Validate(const NodeInfo& node) {
    const std::string_view activation = Activation(node);
    if (activation != "none" && activation != "silu" && activation != "swish") {
      return InvalidModelError("unknown activation '{}'", activation);
    }
    return Status();
  }
  Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                      WorkspaceRequirements& requirements) const override {
    return Workspace(node, requirements);
  }
  static Status Workspace(const NodeInfo& node, WorkspaceRequirements& requirements) {
    LAMINA_ASSIGN_OR_RETURN(const Shape x, LargestInputShape(node, 0));
    LAMINA_ASSIGN_OR_RETURN(const Shape w, LargestInputShape(node, 1));
    if (x.rank() != 3 || w.rank() != 3) return InvalidModelError("input and weight must have three axes");
    const int64_t row = 2 * x[2] + 2 * w[2];  // padded input, results and taps
    return requirements.Add(kPadded, static_cast<size_t>(x[0] * x[1] * row) * sizeof(float));
  }

  // Inputs input [batch, channels, length], weight [channels, 1, kernel], bias, past_state [batch, channels,
  // kernel - 1].
  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* weight, RequireInput(context, 1));
    const Tensor* bias = context.Input(2);
    const Tensor* past = context.Input(3);
    const Shape& shape = x->shape();
    const Shape& w = weight->shape();
    if (shape.rank() != 3 || w.rank() != 3 || w[0] != shape[1] || w[1] != 1 || w[2] < 1 ||
        (bias && bias->num_elements() != shape[1]) ||
        (past && past->num_elements() != shape[0] * shape[1] * (w[2] - 1))) {
      return InvalidArgumentError("weight {} does not fit input {}", w.ToString(), shape.ToString());
    }
    const int64_t channels = shape[1];
    const int64_t length = shape[2];
    const int64_t kernel = w[2];
    const int64_t kept = kernel - 1;
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, shape));
    LAMINA_ASSIGN_OR_RETURN(Tensor * present, context.Output(1, {shape[0], channels, kept}));
    const int64_t row_floats = 2 * length + 2 * kernel;
    LAMINA_ASSIGN_OR_RETURN(float* scratch,
                            GetScratch<float>(context, kPadded, shape[0] * channels * row_floats));
    const DataType type = x->type();
    const int64_t bytes = ElementBytes(type);
    const auto at = [&](const Tensor& tensor, int64_t first) {
      return static_cast<const std::byte*>(tensor.raw_data()) + first * bytes;
    };
    context.threads().ParallelFor(
        shape[0] * channels, GrainOf(length * kernel), [&](int64_t begin, int64_t end, int) {
          for (int64_t row = begin; row < end; ++row) {
            float* padded = scratch + row * row_floats;
            float* sums = padded + kept + length;
            float* taps = sums + length;
            if (past) {
              ConvertToFloat(type, at(*past, row * kept), padded, kept);
            } else {
              std::fill_n(padded, kept, 0.0f);
            }
            ConvertToFloat(type, at(*x, row * length), padded + kept, length);
            ConvertToFloat(type, at(*weight, row % channels * kernel), taps, kernel);
            float offset = 0;
            if (bias) ConvertToFloat(type, at(*bias, row % channels), &offset, 1);
            std::fill_n(sums, length, offset);
            for (int64_t k = 0; k < kernel; ++k) {
              for (int64_t t = 0; t < length; ++t) sums[t] += taps[k] * padded[t + k];
            }
            if (silu_) ActiveVecMath().silu(sums, sums, length);
            if (y)
              ConvertFromFloat(type, sums,
                               static_cast<std::byte*>(y->mutable_raw_data()) + row * length * bytes, length);
            if (present) {
              ConvertFromFloat(type, padded + length,
                               static_cast<std::byte*>(present->mutable_raw_data()) + row * kept * bytes,
                               kept);
            }
          }
        });
    return Status();
  }

 private:
  static std::string_view Activation(const NodeInfo& node) {
    const std::string_view activation = node.String("activation", "none");
    return activation.empty() ? std::string_view("none") : activation;
  }

  bool silu_;
};

}  // namespace

void RegisterCausalConvKernels(KernelRegistry& registry) {
  for (const std::string_view domain : {std::string_view(), kMsDomain}) {
    registry.Add(KernelDef("CausalConvWithState", domain)
                     .Since(domain.empty() ? 27 : 1)
                     .Input(0, kHalfAndFloatTypes)
                     .Input(1, kHalfAndFloatTypes)
                     .Output(0, kHalfAndFloatTypes),
                 CreateKernel<CausalConvWithState>, EstimateWorkspace<CausalConvWithState>);
  }
}

}  // namespace lamina
