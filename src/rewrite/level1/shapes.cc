// Shape arithmetic that symbolic shapes make superfluous: what is left of it at run time.
#include <algorithm>

#include "rewrite/level1/tables.h"

namespace lamina {
namespace {

// Reshape, Expand, Squeeze, Flatten and Tile that give their input as it is.
class SameShapeNodes : public Rewrite {
 public:
  std::string_view name() const override { return "same-shape"; }
  std::vector<std::string_view> roots() const override {
    return {"Reshape", "Expand", "Squeeze", "Flatten", "Tile"};
  }
  bool Apply(GraphEditor& editor, NodeId root) const override {
    if (!editor.node(root).domain.empty()) return false;
    const ValueId input = editor.Input(root, 0);
    return editor.SameShape(input, editor.Output(root)) && editor.Bypass(root, input);
  }
};

// Reshape to a shape that is computed, where a constant says the same: dimensions of the input are copied
// (0), and one may be what is left (-1).
class ConstantReshape : public Rewrite {
 public:
  std::string_view name() const override { return "constant-reshape"; }
  std::vector<std::string_view> roots() const override { return {"Reshape"}; }
  bool Apply(GraphEditor& editor, NodeId root) const override {
    constexpr int kShape = 1;
    if (!editor.Is(root, "Reshape") || editor.node(root).inputs.size() != 2) return false;
    if (editor.IsConstant(editor.Input(root, kShape))) return false;
    const SymbolicShape* from = editor.ShapeOf(editor.Input(root, 0));
    const SymbolicShape* to = editor.ShapeOf(editor.Output(root));
    if (!from || !to) return false;
    std::vector<int64_t> target;
    bool has_rest = false;
    for (size_t i = 0; i < to->dims.size(); ++i) {
      const DimExpr& dim = to->dims[i];
      if (!dim.known()) return false;
      if (const std::optional<int64_t> constant = dim.constant()) {
        if (*constant == 0) return false;
        target.push_back(*constant);
      } else if (i < from->dims.size() && from->dims[i] == dim) {
        target.push_back(0);
      } else if (!has_rest) {
        has_rest = true;
        target.push_back(-1);
      } else {
        return false;
      }
    }
    // "What is left" of no elements is not defined where another dimension is copied and may be 0: then only
    // where the original asked for it too.
    const bool copies = std::find(target.begin(), target.end(), 0) != target.end();
    if (has_rest && copies && !AsksForRest(editor.Elements(editor.Input(root, kShape)))) return false;
    const std::string base = editor.node(root).name.str() + "/shape";
    const ValueId shape = editor.AddIntegers(base, target);
    if (!shape.valid()) return false;
    editor.SetInput(root, kShape, shape);
    std::erase_if(editor.graph().mutable_node(root).attributes,
                  [](const Attribute& attribute) { return attribute.name == "allowzero"; });
    return true;
  }

 private:
  static bool AsksForRest(const SymbolicElements& elements) {
    return elements && std::any_of(elements->begin(), elements->end(),
                                   [](const DimExpr& element) { return element.Is(-1); });
  }
};

// An Expand before an operator that broadcasts anyway, against an operand that has the dimensions.
class ExpandBeforeBroadcast : public Rewrite {
 public:
  std::string_view name() const override { return "expand-before-broadcast"; }
  std::vector<std::string_view> roots() const override { return {"MatMul", "Add", "Sub", "Mul", "Div"}; }
  bool Apply(GraphEditor& editor, NodeId root) const override {
    if (!editor.node(root).domain.empty() || editor.node(root).inputs.size() != 2) return false;
    for (const int operand : {0, 1}) {
      const NodeId expand = editor.Producer(editor.Input(root, static_cast<size_t>(operand)));
      if (!editor.Is(expand, "Expand") || !IsSuperfluous(editor, root, operand, expand)) continue;
      editor.SetInput(root, operand, editor.Input(expand, 0));
      return true;
    }
    return false;
  }

 private:
  static bool IsSuperfluous(const GraphEditor& editor, NodeId root, int operand, NodeId expand) {
    const SymbolicShape* small = editor.ShapeOf(editor.Input(expand, 0));
    const SymbolicShape* expanded = editor.ShapeOf(editor.Output(expand));
    const SymbolicShape* other = editor.ShapeOf(editor.Input(root, static_cast<size_t>(1 - operand)));
    const SymbolicShape* result = editor.ShapeOf(editor.Output(root));
    if (!small || !expanded || !other || !result) return false;
    const int rank = result->rank();
    const bool is_product = editor.Is(root, "MatMul");
    // Products use the last two axes as they are.
    const int fixed = is_product ? 2 : 0;
    if (small->rank() < fixed || other->rank() < fixed || std::max(small->rank(), other->rank()) != rank) {
      return false;
    }
    for (int from_back = 1; from_back <= rank; ++from_back) {
      const auto dim = [from_back](const SymbolicShape& shape) {
        return from_back <= shape.rank() ? shape.dims[static_cast<size_t>(shape.rank() - from_back)]
                                         : DimExpr(1);
      };
      if (!dim(*result).known()) return false;
      if (from_back <= fixed) {
        if (!dim(*expanded).known() || !(dim(*small) == dim(*expanded))) return false;
      } else if (!(dim(*small) == dim(*result)) && !(dim(*small).Is(1) && dim(*other) == dim(*result))) {
        return false;
      }
    }
    return true;
  }
};

}  // namespace

void AddShapeRewrites(RewriteTable& table) {
  table.push_back(std::make_unique<SameShapeNodes>());
  table.push_back(std::make_unique<ConstantReshape>());
  table.push_back(std::make_unique<ExpandBeforeBroadcast>());
}

}  // namespace lamina
