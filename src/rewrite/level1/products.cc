// Matrix products that take in their bias or scale.
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

}  // namespace

void AddProductRewrites(RewriteTable& table) {
  table.push_back(std::make_unique<MatMulAdd>());
  table.push_back(std::make_unique<MatMulScale>());
}

}  // namespace lamina
