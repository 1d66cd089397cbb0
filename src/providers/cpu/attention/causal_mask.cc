// CausalMask (lamina): the mask that torch exports build from ranges and comparisons, in one pass.
#include "providers/cpu/attention/causal_mask.h"

#include <algorithm>
#include <memory>

#include "providers/cpu/gemm/gemm.h"
#include "providers/cpu/kernel_util.h"

namespace lamina {
namespace {

class CausalMask : public Kernel {
 public:
  explicit CausalMask(const NodeInfo& node)
      : masked_(node.Float("masked", 0.0f)), window_(node.Int("window", 0)) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* mask, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* tokens, RequireInput(context, 1));
    if (mask->shape().rank() != 2 || tokens->shape().rank() < 2 || tokens->shape()[0] != mask->shape()[0]) {
      return InvalidArgumentError(
          "expected attention_mask [batch, keys] and tokens [batch, sequence, ..], found {} and {}",
          mask->shape().ToString(), tokens->shape().ToString());
    }
    const int64_t batch = mask->shape()[0];
    const int64_t keys = mask->shape()[1];
    const int64_t sequence = tokens->shape()[1];
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, Shape{batch, 1, sequence, keys}));
    if (!out) return Status();
    auto* data = out->mutable_data<float>();
    context.threads().ParallelFor(batch * sequence, GrainFor(static_cast<double>(keys) * 0.5),
                                  [&](int64_t begin, int64_t end, int) {
                                    for (int64_t row = begin; row < end; ++row) {
                                      const int64_t position = keys - sequence + row % sequence;
                                      FillRow(*mask, row / sequence, position, keys, data + row * keys);
                                    }
                                  });
    return Status();
  }

 private:
  void FillRow(const Tensor& mask, int64_t batch, int64_t position, int64_t keys, float* row) const {
    const int64_t end = std::clamp<int64_t>(position + 1, 0, keys);
    const int64_t begin = window_ > 0 ? std::clamp<int64_t>(position + 1 - window_, 0, end) : 0;
    std::fill(row, row + begin, masked_);
    std::fill(row + end, row + keys, masked_);
    const auto fill = [&](const auto* visible) {
      for (int64_t j = begin; j < end; ++j) row[j] = visible[batch * keys + j] != 0 ? 0.0f : masked_;
    };
    switch (mask.type()) {
      case DataType::kInt64:
        return fill(mask.data<int64_t>());
      case DataType::kInt32:
        return fill(mask.data<int32_t>());
      default:
        return fill(mask.data<uint8_t>());
    }
  }

  float masked_;
  int64_t window_;
};

}  // namespace

void RegisterCausalMask(KernelRegistry& registry) {
  registry.Add(KernelDef("CausalMask", "lamina")
                   .Input(0, TypeSet{DataType::kBool, DataType::kInt32, DataType::kInt64})
                   .Output(0, DataType::kFloat),
               CreateKernel<CausalMask>);
}

}  // namespace lamina
