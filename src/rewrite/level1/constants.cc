// Values that are known before any run: constants in nodes, results of shape arithmetic, small computations.
#include <algorithm>
#include <array>
#include <cstring>

#include "rewrite/level1/tables.h"

namespace lamina {
namespace {

// Constant nodes become initializers, so that patterns find constants in one place.
class ConstantNodes : public Rewrite {
 public:
  std::string_view name() const override { return "constant-nodes"; }
  std::vector<std::string_view> roots() const override { return {"Constant"}; }

  bool Apply(GraphEditor& editor, NodeId root) const override {
    const Node& node = editor.node(root);
    if (!node.domain.empty() || node.attributes.size() != 1 || !node.attributes[0].ref_name.empty()) {
      return false;
    }
    std::optional<Initializer> constant = ValueOf(node.attributes[0]);
    return constant && editor.MakeConstant(root, *std::move(constant));
  }

 private:
  static std::optional<Initializer> ValueOf(const Attribute& attribute) {
    if (const auto* tensor = std::get_if<std::shared_ptr<const Initializer>>(&attribute.value)) {
      return **tensor;
    }
    if (const auto* number = std::get_if<int64_t>(&attribute.value)) {
      return FromValues<int64_t>(DataType::kInt64, Shape{}, {number, 1});
    }
    if (const auto* number = std::get_if<float>(&attribute.value)) {
      return FromValues<float>(DataType::kFloat, Shape{}, {number, 1});
    }
    if (const auto* numbers = std::get_if<std::vector<int64_t>>(&attribute.value)) {
      return FromValues<int64_t>(DataType::kInt64, Shape{static_cast<int64_t>(numbers->size())}, *numbers);
    }
    if (const auto* numbers = std::get_if<std::vector<float>>(&attribute.value)) {
      return FromValues<float>(DataType::kFloat, Shape{static_cast<int64_t>(numbers->size())}, *numbers);
    }
    return {};
  }

  template <typename T>
  static std::optional<Initializer> FromValues(DataType type, const Shape& shape, std::span<const T> values) {
    Result<Tensor> tensor = Tensor::FromValues<T>(type, shape, values);
    if (!tensor.ok()) return {};
    Initializer initializer;
    initializer.type = type;
    initializer.shape = shape;
    initializer.source = *std::move(tensor);
    return initializer;
  }
};

std::optional<Tensor> TensorOf(DataType type, const Shape& shape, const std::vector<DimExpr>& elements) {
  if (shape.num_elements() != static_cast<int64_t>(elements.size())) return {};
  Result<Tensor> tensor = Tensor::Allocate(type, shape);
  if (!tensor.ok()) return {};
  for (size_t i = 0; i < elements.size(); ++i) {
    const std::optional<int64_t> element = elements[i].constant();
    if (!element || !elements[i].known()) return {};
    switch (type) {
      case DataType::kInt64:
        tensor->mutable_data<int64_t>()[i] = *element;
        break;
      case DataType::kInt32:
        if (*element != static_cast<int32_t>(*element)) return {};
        tensor->mutable_data<int32_t>()[i] = static_cast<int32_t>(*element);
        break;
      case DataType::kBool:
        tensor->mutable_data<bool>()[i] = *element != 0;
        break;
      default:
        return {};
    }
  }
  return *std::move(tensor);
}

// Shape arithmetic that comes to numbers: Shape of constant dimensions, Gather from it, and so on.
class KnownIntegers : public Rewrite {
 public:
  std::string_view name() const override { return "known-integers"; }
  std::vector<std::string_view> roots() const override { return {}; }

  bool Apply(GraphEditor& editor, NodeId root) const override {
    if (editor.node(root).outputs.size() != 1) return false;
    const ValueId output = editor.Output(root);
    const SymbolicElements elements = editor.Elements(output);
    const SymbolicShape* shape = editor.ShapeOf(output);
    if (!elements || !shape || !shape->constant()) return false;
    std::optional<Tensor> tensor = TensorOf(editor.Type(output), *shape->constant(), *elements);
    if (!tensor) return false;
    Initializer constant;
    constant.type = tensor->type();
    constant.shape = tensor->shape();
    constant.source = *std::move(tensor);
    return editor.MakeConstant(root, std::move(constant));
  }
};

// Nodes whose inputs are all small constants are computed. Weights that are dequantised come last: operators
// on quantised tensors take them as they are.
class FoldConstants : public Rewrite {
 public:
  enum class Part : uint8_t { kAllButDequantize, kDequantize };
  explicit FoldConstants(Part part) : part_(part) {}
  std::string_view name() const override {
    return part_ == Part::kDequantize ? "fold-dequantized" : "fold-constants";
  }
  std::vector<std::string_view> roots() const override {
    if (part_ == Part::kDequantize) return {"DequantizeLinear"};
    return {};
  }
  int stage() const override { return part_ == Part::kDequantize ? 4 : 0; }

  bool Apply(GraphEditor& editor, NodeId root) const override {
    const Node& node = editor.node(root);
    if (!editor.evaluator() || node.outputs.size() != 1 || node.inputs.empty() || IsExcluded(node)) {
      return false;
    }
    const ValueId output = node.outputs[0];
    if (!output.valid() || editor.value(output).is_graph_output) return false;
    // A large result of small inputs would take memory that the model does not need.
    const SymbolicShape* shape = editor.ShapeOf(output);
    if (!shape || !shape->constant() || !editor.value(output).type.is_tensor()) return false;
    const Result<uint64_t> bytes = TensorBytes(editor.Type(output), *shape->constant());
    if (!bytes.ok() || *bytes > kMaxInferenceConstantBytes) return false;

    std::vector<Tensor> inputs;
    std::vector<const Tensor*> pointers;
    inputs.reserve(node.inputs.size());
    for (const ValueId input : node.inputs) {
      if (!input.valid()) {
        pointers.push_back(nullptr);
        continue;
      }
      std::optional<Tensor> constant = editor.SmallConstant(input);
      if (!constant || constant->type() == DataType::kString) return false;
      inputs.push_back(*std::move(constant));
      pointers.push_back(&inputs.back());
    }
    Result<std::vector<Tensor>> outputs = editor.evaluator()->Evaluate(editor.graph(), node, pointers);
    if (!outputs.ok() || outputs->size() != 1 || (*outputs)[0].type() != editor.Type(output)) return false;
    Initializer constant;
    constant.type = (*outputs)[0].type();
    constant.shape = (*outputs)[0].shape();
    constant.source = std::move((*outputs)[0]);
    return editor.MakeConstant(root, std::move(constant));
  }

 private:
  bool IsExcluded(const Node& node) const {
    if (part_ == Part::kAllButDequantize && node.op_type == "DequantizeLinear") return true;
    // Random, or with a body.
    constexpr std::array<std::string_view, 7> kExcluded = {
        "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
        "Multinomial",  "Bernoulli",        "Dropout"};
    return !node.Subgraphs().empty() ||
           std::find(kExcluded.begin(), kExcluded.end(), node.op_type.view()) != kExcluded.end();
  }

  Part part_;
};

}  // namespace

void AddConstantRewrites(RewriteTable& table) {
  table.push_back(std::make_unique<ConstantNodes>());
  table.push_back(std::make_unique<KnownIntegers>());
  table.push_back(std::make_unique<FoldConstants>(FoldConstants::Part::kAllButDequantize));
  table.push_back(std::make_unique<FoldConstants>(FoldConstants::Part::kDequantize));
}

}  // namespace lamina
