// Products of one input with constant weights become one with a wider weight, where what reads them takes
// their columns side by side.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "rewrite/cpu/tables.h"
#include "rewrite/level1/tables.h"

namespace lamina {
namespace {

// One of the products: with a constant, and perhaps a bias.
struct Projection {
  NodeId product;
  ValueId bias;  // added by a node of its own
  ValueId x;
};

std::optional<Projection> ProjectionOf(const GraphEditor& editor, ValueId value, NodeId user) {
  if (!value.valid() || !editor.OnlyUsedBy(value, user)) return {};
  Projection projection;
  NodeId node = editor.Producer(value);
  if (editor.Is(node, "Add")) {
    const size_t constant = editor.IsConstant(editor.Input(node, 0)) ? 0 : 1;
    projection.bias = editor.Input(node, constant);
    const ValueId product = editor.Input(node, 1 - constant);
    if (!editor.IsConstant(projection.bias) || !editor.OnlyUsedBy(product, node)) return {};
    node = editor.Producer(product);
  }
  const bool is_product = editor.Is(node, "MatMul") || editor.Is(node, "MatMulNBits", kMicrosoftDomain);
  if (!is_product || editor.node(node).outputs.size() != 1) return {};
  projection.product = node;
  projection.x = editor.Input(node, 0);
  return projection;
}

// The products that make some inputs of a node.
class Merge {
 public:
  // Nothing where inputs [0, count) of `user` are not made by products that can be merged. `name` says what
  // the merged constants are called.
  static std::optional<Merge> Of(GraphEditor& editor, NodeId user, size_t count, std::string_view name) {
    Merge merge(editor, name);
    std::vector<NodeId> nodes = {user};
    for (size_t input = 0; input < count; ++input) {
      const std::optional<Projection> projection = ProjectionOf(editor, editor.Input(user, input), user);
      if (!projection) return {};
      merge.projections_.push_back(*projection);
      nodes.push_back(projection->product);
      merge.columns_ = merge.columns_ + editor.Dim(editor.Input(user, input), -1);
    }
    if (!merge.AreAlike() || !editor.OnOneProvider(nodes)) return {};
    return merge;
  }

  // The value [.., columns of all] that takes the place of the products; invalid, without a change, where
  // their weights cannot be put together. `suffix` is what the name of the first product gets.
  ValueId Apply(std::string_view suffix) {
    const NodeId first = projections_[0].product;
    std::optional<NodeSpec> spec = editor_.Is(first, "MatMul") ? MergedMatMul() : MergedNBits();
    if (!spec) return {};
    SymbolicShape shape = *editor_.ShapeOf(projections_[0].x);
    shape.dims.back() = columns_;
    const ValueType type = editor_.value(editor_.Output(first)).type;
    const ValueId merged = editor_.AddNode(first, suffix, *std::move(spec), type, shape);
    if (!projections_[0].bias.valid()) return merged;
    std::vector<ValueId> biases;
    for (const Projection& projection : projections_) biases.push_back(projection.bias);
    const ValueId bias = Concatenated(biases, 0, "bias");
    return editor_.AddNode(first, std::string(suffix) + "/Add", {"Add", kOnnxDomain, {merged, bias}}, type,
                           shape);
  }

 private:
  Merge(GraphEditor& editor, std::string_view name) : editor_(editor), name_(name), columns_(0) {}

  bool AreAlike() const {
    const Projection& first = projections_[0];
    const Node& node = editor_.node(first.product);
    const SymbolicShape* x_shape = editor_.ShapeOf(first.x);
    if (!x_shape || x_shape->rank() < 2) return false;
    return std::all_of(projections_.begin(), projections_.end(), [&](const Projection& other) {
      const Node& other_node = editor_.node(other.product);
      if (!(other_node.op_type == node.op_type) || other.x != first.x ||
          other.bias.valid() != first.bias.valid() || other_node.inputs.size() != node.inputs.size()) {
        return false;
      }
      for (size_t i = 1; i < node.inputs.size(); ++i) {
        const ValueId constant = other_node.inputs[i];
        if (constant.valid() != node.inputs[i].valid()) return false;
        if (constant.valid() && (!editor_.IsConstant(constant) || editor_.value(constant).uses.size() != 1 ||
                                 editor_.Type(constant) != editor_.Type(node.inputs[i]))) {
          return false;
        }
      }
      const SymbolicShape* bias = editor_.ShapeOf(other.bias);
      return !other.bias.valid() ||
             (bias && bias->rank() == 1 && editor_.Type(other.bias) == editor_.Type(first.x) &&
              bias->dims[0] == editor_.Dim(editor_.Output(other.product), -1));
    });
  }

  ValueId Concatenated(const std::vector<ValueId>& parts, int axis, const char* suffix) {
    std::vector<DerivedTensorPtr> operands;
    operands.reserve(parts.size());
    for (const ValueId part : parts) operands.push_back(editor_.ExpressionOf(part));
    const Result<DerivedTensorPtr> derived = DeriveConcat(std::move(operands), axis);
    if (!derived.ok()) return {};
    return editor_.AddDerived(fmt::format("{}/{}_{}", editor_.value(parts[0]).name.str(), name_, suffix),
                              *derived);
  }

  std::vector<ValueId> InputsOf(size_t index) const {
    std::vector<ValueId> inputs;
    for (const Projection& projection : projections_) {
      const ValueId input = editor_.Input(projection.product, index);
      if (input.valid()) inputs.push_back(input);
    }
    return inputs;
  }

  std::optional<NodeSpec> MergedMatMul() {
    const std::vector<ValueId> weights = InputsOf(1);
    const bool are_matrices = std::all_of(weights.begin(), weights.end(), [&](ValueId weight) {
      const SymbolicShape* shape = editor_.ShapeOf(weight);
      return shape && shape->rank() == 2 && shape->is_constant();
    });
    if (!are_matrices) return {};
    const ValueId weight = Concatenated(weights, 1, "weight");
    if (!weight.valid()) return {};
    return NodeSpec{"MatMul", kOnnxDomain, {projections_[0].x, weight}};
  }

  // Rows of the packed matrix are columns of the result: weights, scales and zero points follow each other.
  std::optional<NodeSpec> MergedNBits() {
    constexpr size_t kGroupIndex = 4, kMaxInputs = 6;
    constexpr std::array<const char*, kMaxInputs> kNames = {"", "weight", "scales", "zero_points",
                                                            "", "bias"};
    const NodeId first = projections_[0].product;
    int64_t columns = 0;
    for (const Projection& projection : projections_) {
      for (const char* same : {"K", "bits", "block_size", "accuracy_level", "weight_prepacked"}) {
        if (editor_.Int(projection.product, same, 0) != editor_.Int(first, same, 0)) return {};
      }
      columns += editor_.Int(projection.product, "N", 0);
    }
    if (editor_.Int(first, "weight_prepacked", 0) != 0) return {};
    const size_t num_inputs = editor_.node(first).inputs.size();
    if (num_inputs > kMaxInputs || editor_.Input(first, kGroupIndex).valid()) return {};
    // Everything is checked before anything is added.
    for (size_t i = 1; i < num_inputs; ++i) {
      std::vector<DerivedTensorPtr> operands;
      for (const ValueId part : InputsOf(i)) operands.push_back(editor_.ExpressionOf(part));
      if (!operands.empty() && !DeriveConcat(std::move(operands), 0).ok()) return {};
    }
    std::vector<ValueId> inputs = {projections_[0].x};
    for (size_t i = 1; i < num_inputs; ++i) {
      const std::vector<ValueId> parts = InputsOf(i);
      inputs.push_back(parts.empty() ? ValueId() : Concatenated(parts, 0, kNames[i]));
    }
    std::vector<Attribute> attributes = editor_.node(first).attributes;
    for (Attribute& attribute : attributes) {
      if (attribute.name == "N") attribute.value = columns;
    }
    return NodeSpec{"MatMulNBits", kMicrosoftDomain, std::move(inputs), std::move(attributes)};
  }

  GraphEditor& editor_;
  std::string_view name_;
  std::vector<Projection> projections_;
  DimExpr columns_;
};

// The products that make query, key and value of a GroupQueryAttention.
class MergeQkv : public Rewrite {
 public:
  std::string_view name() const override { return "merge-qkv"; }
  std::vector<std::string_view> roots() const override { return {"GroupQueryAttention"}; }
  int stage() const override { return 3; }

  bool Apply(GraphEditor& editor, NodeId root) const override {
    std::optional<Merge> merge = Merge::Of(editor, root, 3, "qkv");
    const SymbolicShape* query = merge ? editor.ShapeOf(editor.Input(root, 0)) : nullptr;
    if (!query || query->rank() != 3) return false;
    const ValueId packed = merge->Apply("QKV");
    if (!packed.valid()) return false;
    std::vector<ValueId> inputs = editor.node(root).inputs;
    inputs[0] = packed;
    inputs[1] = inputs[2] = ValueId();
    std::vector<Attribute> attributes = editor.node(root).attributes;
    editor.Replace(root, "GroupQueryAttention",
                   {"GroupQueryAttention", kMicrosoftDomain, std::move(inputs), std::move(attributes)});
    return true;
  }
};

// The products that make gate and up of a SwiGLU, for providers whose kernel takes them side by side.
class MergeGateUp : public Rewrite {
 public:
  std::string_view name() const override { return "merge-gate-up"; }
  std::vector<std::string_view> roots() const override { return {"SwiGLU"}; }
  int stage() const override { return 3; }

  bool Apply(GraphEditor& editor, NodeId root) const override {
    if (!editor.Is(root, "SwiGLU", kLaminaDomain) ||
        !editor.SameShape(editor.Input(root, 0), editor.Input(root, 1))) {
      return false;
    }
    std::optional<Merge> merge = Merge::Of(editor, root, 2, "gate_up");
    const ValueId packed = merge ? merge->Apply("GateUp") : ValueId();
    if (!packed.valid()) return false;
    std::vector<Attribute> attributes = editor.node(root).attributes;
    editor.Replace(root, "SwiGLU", {"SwiGLU", kLaminaDomain, {packed}, std::move(attributes)});
    return true;
  }
};

}  // namespace

void AddMergedProductRewrites(RewriteTable& table) { table.push_back(std::make_unique<MergeQkv>()); }

void AddGateUpRewrites(RewriteTable& table) { table.push_back(std::make_unique<MergeGateUp>()); }

}  // namespace lamina
