// Convolutions with the batch normalisation and the activation behind them.
#include <cmath>
#include <cstring>

#include "rewrite/level1/tables.h"
#include "rewrite/pattern.h"

namespace lamina {
namespace {

// A small constant of floats.
std::optional<std::vector<float>> FloatsOf(const GraphEditor& editor, ValueId id) {
  const std::optional<Tensor> tensor = editor.SmallConstant(id);
  if (!tensor || tensor->type() != DataType::kFloat) return {};
  std::vector<float> values(static_cast<size_t>(tensor->num_elements()));
  std::memcpy(values.data(), tensor->raw_data(), values.size() * sizeof(float));
  return values;
}

std::optional<Tensor> TensorOf(const std::vector<float>& values) {
  Result<Tensor> tensor = Tensor::FromValues<float>(
      DataType::kFloat, Shape{static_cast<int64_t>(values.size())}, std::span<const float>(values));
  return tensor.ok() ? std::optional(*std::move(tensor)) : std::nullopt;
}

// Conv(x, w, b) and BatchNormalization of inference: scale and shift of each channel go into w and b.
class ConvBatchNorm : public Rewrite {
 public:
  std::string_view name() const override { return "conv-batch-norm"; }
  std::vector<std::string_view> roots() const override { return {"BatchNormalization"}; }
  int stage() const override { return 1; }

  bool Apply(GraphEditor& editor, NodeId root) const override {
    const Node& norm = editor.node(root);
    if (!norm.domain.empty() || norm.inputs.size() != 5 || editor.Int(root, "training_mode", 0) != 0)
      return false;
    if (norm.since_version < 7 || editor.Int(root, "spatial", 1) != 1) return false;
    for (size_t i = 1; i < norm.outputs.size(); ++i) {
      if (!editor.IsUnused(norm.outputs[i])) return false;
    }
    const ValueId convolved = norm.inputs[0];
    const NodeId conv = editor.Producer(convolved);
    const NodeId both[] = {root, conv};
    if (!editor.Is(conv, "Conv") || !editor.OnlyUsedBy(convolved, root) || !editor.OnOneProvider(both))
      return false;
    const ValueId weight = editor.Input(conv, 1);
    const DerivedTensorPtr weights = editor.ExpressionOf(weight);
    // A weight with other users would be in memory twice.
    if (!weights || weights->type != DataType::kFloat || weights->shape.rank() < 3 ||
        editor.value(weight).uses.size() != 1) {
      return false;
    }
    const auto channels = static_cast<size_t>(weights->shape[0]);
    std::optional<std::vector<float>> bias = std::vector<float>(channels, 0.0f);
    if (editor.Input(conv, 2).valid()) bias = FloatsOf(editor, editor.Input(conv, 2));
    std::vector<std::vector<float>> parameters;  // scale, shift, mean, variance
    for (size_t i = 1; i < 5; ++i) {
      std::optional<std::vector<float>> values = FloatsOf(editor, norm.inputs[i]);
      if (!values || values->size() != channels) return false;
      parameters.push_back(*std::move(values));
    }
    if (!bias || bias->size() != channels) return false;
    const double epsilon = editor.Float(root, "epsilon", 1e-5f);
    std::vector<float> factors(channels), shifts(channels);
    for (size_t c = 0; c < channels; ++c) {
      const double factor = parameters[0][c] / std::sqrt(parameters[3][c] + epsilon);
      if (!std::isfinite(factor)) return false;
      factors[c] = static_cast<float>(factor);
      shifts[c] = static_cast<float>((static_cast<double>((*bias)[c]) - parameters[2][c]) * factor +
                                     parameters[1][c]);
    }
    const std::optional<Tensor> factor_tensor = TensorOf(factors);
    const std::optional<Tensor> shift_tensor = TensorOf(shifts);
    if (!factor_tensor || !shift_tensor) return false;
    DerivedTensor factor_source;
    factor_source.type = DataType::kFloat;
    factor_source.shape = factor_tensor->shape();
    factor_source.source.type = DataType::kFloat;
    factor_source.source.shape = factor_tensor->shape();
    factor_source.source.source = *factor_tensor;
    const Result<DerivedTensorPtr> scaled =
        DeriveMultiply(weights, std::make_shared<const DerivedTensor>(std::move(factor_source)), /*axis=*/0);
    if (!scaled.ok()) return false;
    const ValueId new_weight = editor.AddDerived(editor.value(weight).name.str() + "/normalized", *scaled);
    const ValueId new_bias = editor.AddConstant(editor.node(conv).name.str() + "/bias", *shift_tensor);
    const ValueId x = editor.Input(conv, 0);
    std::vector<Attribute> attributes = editor.node(conv).attributes;
    editor.Replace(root, "Conv", {"Conv", kOnnxDomain, {x, new_weight, new_bias}, std::move(attributes)},
                   {norm.outputs[0]});
    return true;
  }
};

// An activation computed by the convolution before it.
class ConvActivation : public Rewrite {
 public:
  std::string_view name() const override { return "conv-activation"; }
  std::vector<std::string_view> roots() const override { return {"Relu", "Sigmoid", "Tanh", "LeakyRelu"}; }
  int stage() const override { return 2; }

  bool Apply(GraphEditor& editor, NodeId root) const override {
    const Node& activation = editor.node(root);
    const ValueId convolved = editor.Input(root, 0);
    const NodeId conv = editor.Producer(convolved);
    const NodeId both[] = {root, conv};
    if (!activation.domain.empty() || !editor.Is(conv, "Conv") ||
        editor.Type(convolved) != DataType::kFloat || !editor.OnlyUsedBy(convolved, root) ||
        !editor.OnOneProvider(both)) {
      return false;
    }
    std::vector<Attribute> attributes = editor.node(conv).attributes;
    attributes.push_back(editor.MakeAttribute("activation", activation.op_type.str()));
    if (activation.op_type == "LeakyRelu") {
      attributes.push_back(
          editor.MakeAttribute("activation_params", std::vector<float>{editor.Float(root, "alpha", 0.01f)}));
    }
    std::vector<ValueId> inputs = editor.node(conv).inputs;
    editor.Replace(root, "FusedConv",
                   {"FusedConv", kMicrosoftDomain, std::move(inputs), std::move(attributes)});
    return true;
  }
};

}  // namespace

void AddConvolutionRewrites(RewriteTable& table) {
  table.push_back(std::make_unique<ConvBatchNorm>());
  table.push_back(std::make_unique<ConvActivation>());
}

}  // namespace lamina
