// Work on weights that is the same in every run: done once, when the model is loaded.
#include <algorithm>

#include "rewrite/level1/tables.h"

namespace lamina {
namespace {

// A large constant that is only transposed, converted, cut, put together or given another shape. Small ones
// are folded.
class DeriveConstants : public Rewrite {
 public:
  std::string_view name() const override { return "derive-constants"; }
  std::vector<std::string_view> roots() const override {
    return {"Transpose", "Reshape", "Unsqueeze", "Squeeze", "Flatten", "Cast", "Slice", "Concat"};
  }

  bool Apply(GraphEditor& editor, NodeId root) const override {
    const SymbolicShape* shape = editor.ShapeOf(editor.Output(root));
    if (!editor.node(root).domain.empty() || !shape || !shape->constant()) return false;
    const DerivedTensorPtr derived = Derive(editor, root, *shape->constant());
    return derived && editor.MakeDerived(root, derived);
  }

 private:
  static DerivedTensorPtr Derive(const GraphEditor& editor, NodeId root, const Shape& shape) {
    const std::string_view op = editor.node(root).op_type;
    if (op == "Concat") return OrNull(Concatenated(editor, root));
    const DerivedTensorPtr source = editor.ExpressionOf(editor.Input(root, 0));
    if (!source) return nullptr;
    if (op == "Cast") return OrNull(DeriveCast(source, editor.Type(editor.Output(root))));
    if (op == "Slice") return OrNull(Sliced(editor, root, source, shape));
    if (op != "Transpose") return OrNull(DeriveReshape(source, shape));
    std::vector<int64_t> perm;
    if (const std::optional<std::vector<int64_t>> given = editor.Ints(root, "perm")) {
      perm = *given;
    } else {
      for (int axis = source->shape.rank() - 1; axis >= 0; --axis) perm.push_back(axis);
    }
    return OrNull(DeriveTranspose(source, std::move(perm)));
  }

  static DerivedTensorPtr OrNull(const Result<DerivedTensorPtr>& derived) {
    return derived.ok() ? *derived : nullptr;
  }

  static Result<DerivedTensorPtr> Concatenated(const GraphEditor& editor, NodeId root) {
    std::vector<DerivedTensorPtr> operands;
    for (const ValueId input : editor.node(root).inputs) {
      operands.push_back(editor.ExpressionOf(input));
      if (!operands.back()) return DerivedTensorPtr();
    }
    if (operands.empty()) return DerivedTensorPtr();
    const int rank = operands[0]->shape.rank();
    const auto axis = static_cast<int>(editor.Int(root, "axis", 1));
    return DeriveConcat(std::move(operands), axis < 0 ? axis + rank : axis);
  }

  // Steps of 1 only.
  static Result<DerivedTensorPtr> Sliced(const GraphEditor& editor, NodeId root, DerivedTensorPtr source,
                                         const Shape& shape) {
    const bool from_attributes = editor.Opset(kOnnxDomain) < 10;
    const auto list = [&](size_t input, std::string_view attribute) {
      return from_attributes ? editor.Ints(root, attribute) : editor.Integers(editor.Input(root, input));
    };
    constexpr size_t kStarts = 1, kAxes = 3, kSteps = 4;
    const std::optional<std::vector<int64_t>> starts = list(kStarts, "starts");
    std::optional<std::vector<int64_t>> axes = list(kAxes, "axes");
    const bool has_axes = from_attributes ? axes.has_value() : editor.Input(root, kAxes).valid();
    if (!starts || (has_axes && !axes)) return DerivedTensorPtr();
    if (!from_attributes && editor.Input(root, kSteps).valid()) {
      const std::optional<std::vector<int64_t>> steps = editor.Integers(editor.Input(root, kSteps));
      if (!steps || std::any_of(steps->begin(), steps->end(), [](int64_t step) { return step != 1; })) {
        return DerivedTensorPtr();
      }
    }
    const int rank = source->shape.rank();
    for (size_t i = 0; i < starts->size(); ++i) {
      int64_t axis = axes && i < axes->size() ? (*axes)[i] : static_cast<int64_t>(i);
      if (axis < 0) axis += rank;
      if (axis < 0 || axis >= rank) return DerivedTensorPtr();
      const int64_t size = source->shape[static_cast<int>(axis)];
      int64_t start = (*starts)[i];
      if (start < 0) start += size;
      start = std::clamp<int64_t>(start, 0, size);
      LAMINA_ASSIGN_OR_RETURN(source, DeriveSlice(std::move(source), static_cast<int>(axis), start,
                                                  shape[static_cast<int>(axis)]));
    }
    return source;
  }
};

}  // namespace

void AddDerivedConstantRewrites(RewriteTable& table) { table.push_back(std::make_unique<DeriveConstants>()); }

}  // namespace lamina
