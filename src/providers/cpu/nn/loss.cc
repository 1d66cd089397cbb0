// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
#include <cmath>

#include "providers/cpu/kernel_util.h"

namespace lamina {
namespace {

enum class LossReduction : uint8_t { kNone, kSum, kMean };

Result<LossReduction> ParseReduction(std::string_view name) {
  if (name == "none") return LossReduction::kNone;
  if (name == "sum") return LossReduction::kSum;
  if (name == "mean") return LossReduction::kMean;
  return InvalidModelError("unknown reduction '{}'", name);
}

double At(const Tensor& tensor, int64_t index) {
  if (tensor.type() == DataType::kDouble) return tensor.data<double>()[index];
  if (tensor.type() == DataType::kFloat16) return tensor.data<Float16>()[index];
  if (tensor.type() == DataType::kBfloat16) return tensor.data<Bfloat16>()[index];
  return tensor.data<float>()[index];
}

void Set(Tensor& tensor, int64_t index, double value) {
  if (tensor.type() == DataType::kDouble) {
    tensor.mutable_data<double>()[index] = value;
  } else if (tensor.type() == DataType::kFloat16) {
    tensor.mutable_data<Float16>()[index] = Float16(static_cast<float>(value));
  } else if (tensor.type() == DataType::kBfloat16) {
    tensor.mutable_data<Bfloat16>()[index] = Bfloat16(static_cast<float>(value));
  } else {
    tensor.mutable_data<float>()[index] = static_cast<float>(value);
  }
}

// Both take scores [N, C, d...], labels [N, d...] and optional weights [C]. The input of the likelihood loss
// is logarithms of probabilities; the cross entropy makes them by log-softmax and can return them.
class LabelLoss : public Kernel {
 public:
  explicit LabelLoss(const NodeInfo& node)
      : softmax_(node.op_type() == "SoftmaxCrossEntropyLoss"),
        reduction_(*ParseReduction(node.String("reduction", "mean"))),
        has_ignored_(node.FindAttribute("ignore_index") != nullptr),
        ignored_(node.Int("ignore_index", 0)) {}
  static Status Validate(const NodeInfo& node) {
    return ParseReduction(node.String("reduction", "mean")).status();
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* scores, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* labels, RequireInput(context, 1));
    const Tensor* weights = context.Input(2);
    const Shape& shape = scores->shape();
    if (shape.rank() < 2 || shape[1] < 1 || labels->shape().rank() != shape.rank() - 1 ||
        labels->num_elements() * shape[1] != scores->num_elements() ||
        (weights && weights->num_elements() != shape[1])) {
      return InvalidArgumentError("labels {} do not fit scores {}", labels->shape().ToString(),
                                  shape.ToString());
    }
    const int64_t classes = shape[1];
    const int64_t inner = shape.num_elements(2, shape.rank());
    LAMINA_ASSIGN_OR_RETURN(
        Tensor * loss, context.Output(0, reduction_ == LossReduction::kNone ? labels->shape() : Shape()));
    LAMINA_ASSIGN_OR_RETURN(Tensor * log_probabilities, context.Output(1, shape));
    double total = 0;
    double total_weight = 0;
    for (int64_t i = 0; i < labels->num_elements(); ++i) {
      const int64_t first = i / inner * classes * inner + i % inner;  // of this place's scores, inner apart
      double log_sum = 0;
      if (softmax_) {
        double largest = At(*scores, first);
        for (int64_t c = 1; c < classes; ++c) largest = std::max(largest, At(*scores, first + c * inner));
        for (int64_t c = 0; c < classes; ++c) log_sum += std::exp(At(*scores, first + c * inner) - largest);
        log_sum = largest + std::log(log_sum);
        for (int64_t c = 0; log_probabilities && c < classes; ++c) {
          Set(*log_probabilities, first + c * inner, At(*scores, first + c * inner) - log_sum);
        }
      }
      const int64_t label =
          labels->type() == DataType::kInt32 ? labels->data<int32_t>()[i] : labels->data<int64_t>()[i];
      double value = 0;
      if (!(has_ignored_ && label == ignored_)) {
        if (label < 0 || label >= classes)
          return InvalidArgumentError("label {} of {} classes", label, classes);
        const double weight = weights ? At(*weights, label) : 1;
        value = weight * (log_sum - At(*scores, first + label * inner));
        total += value;
        total_weight += weight;
      }
      if (loss && reduction_ == LossReduction::kNone) Set(*loss, i, value);
    }
    if (loss && reduction_ == LossReduction::kSum) Set(*loss, 0, total);
    if (loss && reduction_ == LossReduction::kMean) Set(*loss, 0, total / total_weight);
    return Status();
  }

 private:
  bool softmax_;
  LossReduction reduction_;
  bool has_ignored_;
  int64_t ignored_;
};

}  // namespace

void RegisterLossKernels(KernelRegistry& registry) {
  for (const char* name : {"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"}) {
    registry.Add(KernelDef(name).Since(12).Input(0, kFloatTypes).Input(1, kIndexTypes).Output(0, kFloatTypes),
                 CreateKernel<LabelLoss>);
  }
}

}  // namespace lamina
