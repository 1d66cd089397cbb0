// Products with what follows them.
#include "rewrite/cpu/tables.h"
#include "rewrite/pattern.h"

namespace lamina {
namespace {

// x w + bias for x of any rank: MatMulAdd, which adds the bias while the product is stored.
class MatMulBias : public Rewrite {
 public:
  MatMulBias() : pattern_(Op("Add", {Op("MatMul", {Any("x"), Constant("w")}), Constant("bias")})) {}
  std::string_view name() const override { return "matmul-bias"; }
  std::vector<std::string_view> roots() const override { return {"Add"}; }

  bool Apply(GraphEditor& editor, NodeId root) const override {
    const std::optional<Match> match = FindMatch(editor, pattern_, root);
    if (!match) return false;
    const ValueId x = (*match)["x"], w = (*match)["w"], bias = (*match)["bias"];
    const SymbolicShape* x_shape = editor.ShapeOf(x);
    const SymbolicShape* w_shape = editor.ShapeOf(w);
    const SymbolicShape* bias_shape = editor.ShapeOf(bias);
    const DataType type = editor.Type(x);
    const bool has_type =
        type == DataType::kFloat || type == DataType::kFloat16 || type == DataType::kBfloat16;
    if (!has_type || !x_shape || x_shape->rank() < 2 || !w_shape || w_shape->rank() != 2 || !bias_shape ||
        bias_shape->rank() != 1 || !(bias_shape->dims[0] == w_shape->dims[1]) || editor.Type(bias) != type) {
      return false;
    }
    editor.Replace(root, "MatMulAdd", {"MatMulAdd", kLaminaDomain, {x, w, bias}});
    return true;
  }

 private:
  Pattern pattern_;
};

}  // namespace

void AddCpuProductRewrites(RewriteTable& table) { table.push_back(std::make_unique<MatMulBias>()); }

}  // namespace lamina
