// Nodes that do nothing, or nothing together with their neighbour.
#include <algorithm>
#include <numeric>

#include "rewrite/level1/tables.h"

namespace lamina {
namespace {

// Nodes whose outputs nobody reads.
class DeadNodes : public Rewrite {
 public:
  std::string_view name() const override { return "dead-nodes"; }
  std::vector<std::string_view> roots() const override { return {}; }
  bool Apply(GraphEditor& editor, NodeId root) const override {
    editor.RemoveIfUnused(root);
    return !editor.node(root).alive;
  }
};

// Identity; Dropout of inference without its mask; Concat, Sum, Max, Min and Mean of one input.
class DropIdentity : public Rewrite {
 public:
  std::string_view name() const override { return "drop-identity"; }
  std::vector<std::string_view> roots() const override {
    return {"Identity", "Dropout", "Concat", "Sum", "Max", "Min", "Mean"};
  }
  bool Apply(GraphEditor& editor, NodeId root) const override {
    const Node& node = editor.node(root);
    if (!node.domain.empty() || node.inputs.empty()) return false;
    if (node.op_type == "Dropout") {
      // Before opset 12 always inference; afterwards where no training_mode is given.
      if (node.since_version < 7 || (node.inputs.size() > 2 && node.inputs[2].valid())) return false;
    } else if (node.inputs.size() != 1) {
      return false;
    }
    return editor.Bypass(root, node.inputs[0]);
  }
};

bool IsFloatingPoint(DataType type) {
  return type == DataType::kFloat || type == DataType::kFloat16 || type == DataType::kBfloat16 ||
         type == DataType::kDouble;
}

// Whether every value of `from` has the same value in `to`.
bool Widens(DataType from, DataType to) {
  switch (from) {
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return to == DataType::kFloat || to == DataType::kDouble;
    case DataType::kFloat:
      return to == DataType::kDouble;
    case DataType::kInt32:
      return to == DataType::kInt64 || to == DataType::kDouble;
    case DataType::kInt8:
    case DataType::kUint8:
    case DataType::kBool:
      return to == DataType::kInt32 || to == DataType::kInt64 || IsFloatingPoint(to);
    default:
      return false;
  }
}

// A Cast to the type that is there, and a Cast of a Cast that loses nothing.
class CastCleanup : public Rewrite {
 public:
  std::string_view name() const override { return "cast-cleanup"; }
  std::vector<std::string_view> roots() const override { return {"Cast", "CastLike"}; }
  bool Apply(GraphEditor& editor, NodeId root) const override {
    if (!editor.node(root).domain.empty()) return false;
    const ValueId input = editor.Input(root, 0);
    const DataType from = editor.Type(input);
    const DataType to = editor.Type(editor.Output(root));
    if (from == DataType::kUndefined || to == DataType::kUndefined) return false;
    if (from == to) return editor.Bypass(root, input);
    const NodeId inner = editor.Producer(input);
    if (!editor.Is(inner, "Cast") || !editor.Is(root, "Cast")) return false;
    const ValueId source = editor.Input(inner, 0);
    if (!Widens(editor.Type(source), from)) return false;
    if (editor.Type(source) == to) return editor.Bypass(root, source);
    editor.SetInput(root, 0, source);
    return true;
  }
};

std::vector<int64_t> PermOf(const GraphEditor& editor, NodeId id, int rank) {
  if (std::optional<std::vector<int64_t>> perm = editor.Ints(id, "perm")) return *perm;
  std::vector<int64_t> reversed(static_cast<size_t>(rank));
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  return reversed;
}

// A Transpose that moves no axis, and a Transpose of a Transpose.
class TransposeCleanup : public Rewrite {
 public:
  std::string_view name() const override { return "transpose-cleanup"; }
  std::vector<std::string_view> roots() const override { return {"Transpose"}; }
  bool Apply(GraphEditor& editor, NodeId root) const override {
    const ValueId input = editor.Input(root, 0);
    const SymbolicShape* shape = editor.ShapeOf(input);
    if (!shape || !editor.Is(root, "Transpose")) return false;
    std::vector<int64_t> perm = PermOf(editor, root, shape->rank());
    if (static_cast<int>(perm.size()) != shape->rank()) return false;
    if (std::is_sorted(perm.begin(), perm.end())) return editor.Bypass(root, input);
    const NodeId inner = editor.Producer(input);
    if (!editor.Is(inner, "Transpose")) return false;
    const std::vector<int64_t> inner_perm = PermOf(editor, inner, shape->rank());
    if (inner_perm.size() != perm.size()) return false;
    for (int64_t& axis : perm) axis = inner_perm[static_cast<size_t>(axis)];
    const ValueId source = editor.Input(inner, 0);
    if (std::is_sorted(perm.begin(), perm.end())) return editor.Bypass(root, source);
    editor.Replace(root, "Transposes",
                   {"Transpose", kOnnxDomain, {source}, {editor.MakeAttribute("perm", std::move(perm))}});
    return true;
  }
};

// x * 1, x / 1, x + 0, x - 0, x ^ 1, where the constant does not broadcast x to another shape.
class NeutralOperands : public Rewrite {
 public:
  std::string_view name() const override { return "neutral-operands"; }
  std::vector<std::string_view> roots() const override { return {"Mul", "Div", "Add", "Sub", "Pow"}; }
  bool Apply(GraphEditor& editor, NodeId root) const override {
    const Node& node = editor.node(root);
    if (!node.domain.empty() || node.inputs.size() != 2) return false;
    const bool commutes = node.op_type == "Mul" || node.op_type == "Add";
    const double neutral = node.op_type == "Add" || node.op_type == "Sub" ? 0 : 1;
    for (const size_t constant : {size_t{1}, size_t{0}}) {
      if (constant == 0 && !commutes) break;
      const ValueId kept = node.inputs[1 - constant];
      if (editor.Scalar(node.inputs[constant]) != neutral) continue;
      // x + 0 makes 0 of -0; floating-point zeros compare equal, and no operator but division tells them
      // apart.
      if (editor.Type(kept) != editor.Type(editor.Output(root))) continue;
      if (!editor.SameShape(kept, editor.Output(root))) continue;
      return editor.Bypass(root, kept);
    }
    return false;
  }
};

}  // namespace

void AddCleanupRewrites(RewriteTable& table) {
  table.push_back(std::make_unique<DeadNodes>());
  table.push_back(std::make_unique<DropIdentity>());
  table.push_back(std::make_unique<CastCleanup>());
  table.push_back(std::make_unique<TransposeCleanup>());
  table.push_back(std::make_unique<NeutralOperands>());
}

}  // namespace lamina
