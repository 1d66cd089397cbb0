// Matrix products: bias and scale taken in, transposed weights, and products of one input merged.
#include <algorithm>
#include <array>

#include "rewrite/level1/tables.h"
#include "rewrite/pattern.h"

namespace lamina {
namespace {

bool IsFloat(DataType type) {
  return type == DataType::kFloat || type == DataType::kFloat16 || type == DataType::kBfloat16;
}

bool IsMatrix(const GraphEditor& editor, ValueId id) {
  const SymbolicShape* shape = editor.ShapeOf(id);
  return shape && shape->rank() == 2 && shape->is_constant();
}

// A large constant that is only transposed, or given another shape, is derived once instead of in every run.
// Small ones are folded.
class DeriveConstants : public Rewrite {
 public:
  std::string_view name() const override { return "derive-constants"; }
  std::vector<std::string_view> roots() const override {
    return {"Transpose", "Reshape", "Unsqueeze", "Squeeze", "Cast"};
  }

  bool Apply(GraphEditor& editor, NodeId root) const override {
    const Node& node = editor.node(root);
    const DerivedTensorPtr source = editor.ExpressionOf(editor.Input(root, 0));
    const SymbolicShape* shape = editor.ShapeOf(editor.Output(root));
    if (!source || !node.domain.empty() || !shape || !shape->constant()) return false;
    const Result<DerivedTensorPtr> derived = Derive(editor, root, source, *shape->constant());
    return derived.ok() && editor.MakeDerived(root, *derived);
  }

 private:
  static Result<DerivedTensorPtr> Derive(const GraphEditor& editor, NodeId root,
                                         const DerivedTensorPtr& source, const Shape& shape) {
    const std::string_view op = editor.node(root).op_type;
    if (op == "Cast") return DeriveCast(source, editor.Type(editor.Output(root)));
    if (op != "Transpose") return DeriveReshape(source, shape);
    std::vector<int64_t> perm;
    if (const std::optional<std::vector<int64_t>> given = editor.Ints(root, "perm")) {
      perm = *given;
    } else {
      for (int axis = source->shape.rank() - 1; axis >= 0; --axis) perm.push_back(axis);
    }
    return DeriveTranspose(source, std::move(perm));
  }
};

// x w + bias of matrices: Gemm.
class MatMulAdd : public Rewrite {
 public:
  MatMulAdd() : pattern_(Op("Add", {Op("MatMul", {Any("x"), Constant("w")}), Constant("bias")})) {}
  std::string_view name() const override { return "matmul-add"; }
  std::vector<std::string_view> roots() const override { return {"Add"}; }
  int stage() const override { return 3; }

  bool Apply(GraphEditor& editor, NodeId root) const override {
    const std::optional<Match> match = FindMatch(editor, pattern_, root);
    if (!match || editor.Opset(kOnnxDomain) < 11) return false;
    const ValueId x = (*match)["x"], w = (*match)["w"], bias = (*match)["bias"];
    const SymbolicShape* x_shape = editor.ShapeOf(x);
    const SymbolicShape* bias_shape = editor.ShapeOf(bias);
    if (!x_shape || x_shape->rank() != 2 || !IsMatrix(editor, w) || !bias_shape || bias_shape->rank() != 1 ||
        !(bias_shape->dims[0] == editor.Dim(w, 1)) || !IsFloat(editor.Type(x)) ||
        editor.Type(bias) != editor.Type(x)) {
      return false;
    }
    editor.Replace(root, "Gemm", {"Gemm", kOnnxDomain, {x, w, bias}});
    return true;
  }

 private:
  Pattern pattern_;
};

// (x w) * number: the number goes into the weight.
class MatMulScale : public Rewrite {
 public:
  MatMulScale()
      : pattern_(OneOf({Op("Mul", {Op("MatMul", {Any("x"), Constant("w")}), Number("factor")}),
                        Op("Mul", {Op("MatMul", {Any("x"), Constant("w")}), Constant("per_column")})})) {}
  std::string_view name() const override { return "matmul-scale"; }
  std::vector<std::string_view> roots() const override { return {"Mul"}; }
  int stage() const override { return 3; }

  bool Apply(GraphEditor& editor, NodeId root) const override {
    const std::optional<Match> match = FindMatch(editor, pattern_, root);
    if (!match) return false;
    const ValueId x = (*match)["x"], w = (*match)["w"];
    const ValueId per_column = (*match)["per_column"];
    const ValueId factors = per_column.valid() ? per_column : (*match)["factor"];
    // A weight with other users would be in memory twice. Half precision could overflow in the weight.
    if (!IsMatrix(editor, w) || editor.Type(w) != DataType::kFloat || editor.value(w).uses.size() != 1)
      return false;
    const SymbolicShape* factors_shape = editor.ShapeOf(factors);
    if (per_column.valid() &&
        (!factors_shape || factors_shape->rank() != 1 || !(factors_shape->dims[0] == editor.Dim(w, 1)))) {
      return false;
    }
    if (!per_column.valid() && factors_shape && factors_shape->rank() > 3) return false;
    const SymbolicShape* x_shape = editor.ShapeOf(x);
    const SymbolicShape* y_shape = editor.ShapeOf(editor.Output(root));
    if (!x_shape || !y_shape || x_shape->rank() != y_shape->rank()) return false;
    const Result<DerivedTensorPtr> scaled =
        DeriveMultiply(editor.ExpressionOf(w), editor.ExpressionOf(factors), /*axis=*/1);
    if (!scaled.ok()) return false;
    const ValueId weight = editor.AddDerived(editor.value(w).name.str() + "/scaled", *scaled);
    editor.Replace(root, "MatMul", {"MatMul", kOnnxDomain, {x, weight}});
    return true;
  }

 private:
  Pattern pattern_;
};

// One of query, key and value: a product with a constant, and perhaps a bias.
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

// The products that make query, key and value of a GroupQueryAttention become one with a wider weight.
class MergeQkv : public Rewrite {
 public:
  std::string_view name() const override { return "merge-qkv"; }
  std::vector<std::string_view> roots() const override { return {"GroupQueryAttention"}; }
  int stage() const override { return 3; }

  bool Apply(GraphEditor& editor, NodeId root) const override {
    std::vector<Projection> projections;
    for (const size_t input : {0, 1, 2}) {
      const std::optional<Projection> projection = ProjectionOf(editor, editor.Input(root, input), root);
      if (!projection) return false;
      projections.push_back(*projection);
    }
    std::vector<NodeId> nodes = {root};
    for (const Projection& projection : projections) nodes.push_back(projection.product);
    if (!AreAlike(editor, projections) || !editor.OnOneProvider(nodes)) return false;
    const NodeId first = projections[0].product;
    std::optional<NodeSpec> spec =
        editor.Is(first, "MatMul") ? MergedMatMul(editor, projections) : MergedNBits(editor, projections);
    if (!spec) return false;
    const SymbolicShape* x_shape = editor.ShapeOf(projections[0].x);
    DimExpr columns(0);
    for (const size_t input : {0, 1, 2}) columns = columns + editor.Dim(editor.Input(root, input), -1);
    SymbolicShape shape = *x_shape;
    shape.dims.back() = columns;
    const ValueType type = editor.value(editor.Input(root, 0)).type;
    ValueId packed = editor.AddNode(first, "QKV", *std::move(spec), type, shape);
    if (projections[0].bias.valid()) {
      std::vector<ValueId> biases;
      for (const Projection& projection : projections) biases.push_back(projection.bias);
      const ValueId bias = Concatenated(editor, biases, 0, "bias");
      packed = editor.AddNode(first, "QKV/Add", {"Add", kOnnxDomain, {packed, bias}}, type, shape);
    }
    std::vector<ValueId> inputs = editor.node(root).inputs;
    inputs[0] = packed;
    inputs[1] = inputs[2] = ValueId();
    std::vector<Attribute> attributes = editor.node(root).attributes;
    editor.Replace(root, "GroupQueryAttention",
                   {"GroupQueryAttention", kMicrosoftDomain, std::move(inputs), std::move(attributes)});
    return true;
  }

 private:
  static bool AreAlike(const GraphEditor& editor, const std::vector<Projection>& projections) {
    const Projection& first = projections[0];
    const Node& node = editor.node(first.product);
    const SymbolicShape* x_shape = editor.ShapeOf(first.x);
    if (!x_shape || x_shape->rank() != 3) return false;
    return std::all_of(projections.begin(), projections.end(), [&](const Projection& other) {
      const Node& other_node = editor.node(other.product);
      if (!(other_node.op_type == node.op_type) || other.x != first.x ||
          other.bias.valid() != first.bias.valid() || other_node.inputs.size() != node.inputs.size()) {
        return false;
      }
      for (size_t i = 1; i < node.inputs.size(); ++i) {
        const ValueId constant = other_node.inputs[i];
        if (constant.valid() != node.inputs[i].valid()) return false;
        if (constant.valid() && (!editor.IsConstant(constant) || editor.value(constant).uses.size() != 1 ||
                                 editor.Type(constant) != editor.Type(node.inputs[i]))) {
          return false;
        }
      }
      const SymbolicShape* bias = editor.ShapeOf(other.bias);
      return !other.bias.valid() ||
             (bias && bias->rank() == 1 && editor.Type(other.bias) == editor.Type(first.x) &&
              bias->dims[0] == editor.Dim(editor.Output(other.product), -1));
    });
  }

  static ValueId Concatenated(GraphEditor& editor, const std::vector<ValueId>& parts, int axis,
                              const char* suffix) {
    std::vector<DerivedTensorPtr> operands;
    for (const ValueId part : parts) operands.push_back(editor.ExpressionOf(part));
    const Result<DerivedTensorPtr> derived = DeriveConcat(std::move(operands), axis);
    if (!derived.ok()) return {};
    return editor.AddDerived(editor.value(parts[0]).name.str() + "/qkv_" + suffix, *derived);
  }

  static std::vector<ValueId> InputsOf(const GraphEditor& editor, const std::vector<Projection>& projections,
                                       size_t index) {
    std::vector<ValueId> inputs;
    for (const Projection& projection : projections) {
      if (const ValueId input = editor.Input(projection.product, index); input.valid())
        inputs.push_back(input);
    }
    return inputs;
  }

  static std::optional<NodeSpec> MergedMatMul(GraphEditor& editor,
                                              const std::vector<Projection>& projections) {
    const std::vector<ValueId> weights = InputsOf(editor, projections, 1);
    if (!std::all_of(weights.begin(), weights.end(), [&](ValueId w) { return IsMatrix(editor, w); }))
      return {};
    const ValueId weight = Concatenated(editor, weights, 1, "weight");
    if (!weight.valid()) return {};
    return NodeSpec{"MatMul", kOnnxDomain, {projections[0].x, weight}};
  }

  // Rows of the packed matrix are columns of the result: weights, scales and zero points follow each other.
  static std::optional<NodeSpec> MergedNBits(GraphEditor& editor,
                                             const std::vector<Projection>& projections) {
    constexpr size_t kGroupIndex = 4, kMaxInputs = 6;
    constexpr std::array<const char*, kMaxInputs> kNames = {"", "weight", "scales", "zero_points",
                                                            "", "bias"};
    const NodeId first = projections[0].product;
    int64_t columns = 0;
    for (const Projection& projection : projections) {
      for (const char* same : {"K", "bits", "block_size", "accuracy_level", "weight_prepacked"}) {
        if (editor.Int(projection.product, same, 0) != editor.Int(first, same, 0)) return {};
      }
      columns += editor.Int(projection.product, "N", 0);
    }
    if (editor.Int(first, "weight_prepacked", 0) != 0) return {};
    const size_t num_inputs = editor.node(first).inputs.size();
    if (num_inputs > kMaxInputs || editor.Input(first, kGroupIndex).valid()) return {};
    // Everything is checked before anything is added.
    for (size_t i = 1; i < num_inputs; ++i) {
      std::vector<DerivedTensorPtr> operands;
      for (const ValueId part : InputsOf(editor, projections, i))
        operands.push_back(editor.ExpressionOf(part));
      if (!operands.empty() && !DeriveConcat(std::move(operands), 0).ok()) return {};
    }
    std::vector<ValueId> inputs = {projections[0].x};
    for (size_t i = 1; i < num_inputs; ++i) {
      const std::vector<ValueId> parts = InputsOf(editor, projections, i);
      inputs.push_back(parts.empty() ? ValueId() : Concatenated(editor, parts, 0, kNames[i]));
    }
    std::vector<Attribute> attributes = editor.node(first).attributes;
    for (Attribute& attribute : attributes) {
      if (attribute.name == "N") attribute.value = columns;
    }
    return NodeSpec{"MatMulNBits", kMicrosoftDomain, std::move(inputs), std::move(attributes)};
  }
};

}  // namespace

void AddProductRewrites(RewriteTable& table) {
  table.push_back(std::make_unique<DeriveConstants>());
  table.push_back(std::make_unique<MatMulAdd>());
  table.push_back(std::make_unique<MatMulScale>());
  table.push_back(std::make_unique<MergeQkv>());
}

}  // namespace lamina
