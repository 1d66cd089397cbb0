// com.microsoft SkipLayerNormalization and SkipSimplifiedLayerNormalization: the residual sum and its
// normalisation in one pass. Output 3 is the sum input + skip + bias.
#include <array>
#include <memory>

#include "provider/kernel_registry.h"
#include "providers/cpu/gemm/gemm.h"
#include "providers/cpu/rows/row_kernels.h"

namespace lamina {
namespace {

template <bool kSimplified>
class SkipLayerNorm : public Kernel {
  static constexpr int kGamma = 2;
  static constexpr int kBeta = kSimplified ? -1 : 3;
  static constexpr int kBias = kSimplified ? 3 : 4;

 public:
  explicit SkipLayerNorm(const NodeInfo& node)
      : kernels_(RowKernelsFor(ActiveIsa())), epsilon_(node.Float("epsilon", 1e-12f)) {}

  Status Compute(KernelContext& context) const override {
    const Tensor& x = *context.Input(0);
    const Tensor& skip = *context.Input(1);
    const Tensor* gamma = context.Input(kGamma);
    const Tensor* beta = Optional(context, kBeta);
    const Tensor* bias = Optional(context, kBias);
    const Shape& shape = x.shape();
    const int rank = shape.rank();
    if (rank != 2 && rank != 3) {
      return InvalidArgumentError("input must have 2 or 3 dimensions, found shape {}", shape.ToString());
    }
    const int64_t hidden = shape[rank - 1];
    for (const Tensor* vector : {gamma, beta, bias}) {
      if (vector && vector->shape() != Shape{hidden}) {
        return InvalidArgumentError("gamma, beta and bias must have shape [{}], found {}", hidden,
                                    vector->shape().ToString());
      }
    }
    // Rows of skip repeat over the batch: [sequence, hidden] or [1, sequence, hidden].
    const int64_t skip_rows = hidden == 0 ? 0 : skip.num_elements() / hidden;
    if (skip.shape() != shape && skip.shape() != Shape{shape[rank - 2], hidden} &&
        skip.shape() != Shape{1, shape[rank - 2], hidden}) {
      return InvalidArgumentError("skip of shape {} does not broadcast to the input's {}",
                                  skip.shape().ToString(), shape.ToString());
    }
    Shape statistics = shape;
    statistics[rank - 1] = 1;
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, shape));
    std::array<Tensor*, 4> outputs{};  // 1 mean, 2 inverse deviation, 3 sum
    for (const int i : {1, 2, 3}) {
      if (i >= context.num_outputs() || !context.HasOutput(i)) continue;
      LAMINA_ASSIGN_OR_RETURN(outputs[static_cast<size_t>(i)],
                              context.Output(i, i == 3 ? shape : statistics));
    }

    NormalizeRow prototype;
    prototype.count = hidden;
    prototype.bias = bias ? bias->raw_data() : nullptr;
    prototype.scale = gamma->raw_data();
    prototype.shift = beta ? beta->raw_data() : nullptr;
    prototype.epsilon = epsilon_;
    prototype.rms = kSimplified;
    const auto normalize = kernels_.For(x.type()).normalize;
    const int64_t row_bytes = hidden * DataTypeBits(x.type()) / 8;
    const char* x_data = static_cast<const char*>(x.raw_data());
    const char* skip_data = static_cast<const char*>(skip.raw_data());
    char* y_data = static_cast<char*>(y->mutable_raw_data());
    char* sum_data = outputs[3] ? static_cast<char*>(outputs[3]->mutable_raw_data()) : nullptr;
    context.threads().ParallelFor(shape.num_elements(0, rank - 1),
                                  GrainFor(static_cast<double>(hidden) * 0.3),
                                  [&](int64_t begin, int64_t end, int) {
                                    for (int64_t i = begin; i < end; ++i) {
                                      NormalizeRow row = prototype;
                                      row.x = x_data + i * row_bytes;
                                      row.skip = skip_data + i % skip_rows * row_bytes;
                                      row.y = y_data + i * row_bytes;
                                      row.sum = sum_data ? sum_data + i * row_bytes : nullptr;
                                      normalize(row);
                                      if (outputs[1]) outputs[1]->mutable_data<float>()[i] = row.mean;
                                      if (outputs[2])
                                        outputs[2]->mutable_data<float>()[i] = row.inverse_deviation;
                                    }
                                  });
    return Status();
  }

 private:
  static const Tensor* Optional(const KernelContext& context, int index) {
    return index >= 0 && index < context.num_inputs() ? context.Input(index) : nullptr;
  }

  const RowKernels& kernels_;
  float epsilon_;
};

template <bool kSimplified>
void Register(KernelRegistry& registry, const char* op_type) {
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16}) {
    KernelDef def(op_type, kMsDomain);
    for (int i = 0; i < (kSimplified ? 4 : 5); ++i) def.Input(i, type);
    def.Output(0, type).Output(1, DataType::kFloat).Output(2, DataType::kFloat).Output(3, type);
    registry.Add(std::move(def), CreateKernel<SkipLayerNorm<kSimplified>>);
  }
}

}  // namespace

void RegisterSkipLayerNorm(KernelRegistry& registry) {
  Register<false>(registry, "SkipLayerNormalization");
  Register<true>(registry, "SkipSimplifiedLayerNormalization");
}

}  // namespace lamina
