// Two nodes that compute the same thing become one.
#include <algorithm>
#include <array>
#include <cstring>

#include "rewrite/level1/tables.h"

namespace lamina {
namespace {

// Users of a value that are compared with a node: keeps the work linear.
constexpr size_t kMaxCandidates = 64;

bool SameAttribute(const Attribute& a, const Attribute& b) {
  if (!(a.name == b.name) || a.value.index() != b.value.index() || !a.ref_name.empty()) return false;
  return std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, float> || std::is_same_v<T, int64_t> ||
                      std::is_same_v<T, std::string> || std::is_same_v<T, std::vector<float>> ||
                      std::is_same_v<T, std::vector<int64_t>> ||
                      std::is_same_v<T, std::vector<std::string>>) {
          return value == std::get<T>(b.value);
        } else {
          return false;  // tensors, types and graphs are not compared
        }
      },
      a.value);
}

bool SameAttributes(const Node& a, const Node& b) {
  return a.attributes.size() == b.attributes.size() &&
         std::all_of(a.attributes.begin(), a.attributes.end(), [&](const Attribute& attribute) {
           const Attribute* other = b.FindAttribute(attribute.name);
           return other && SameAttribute(attribute, *other);
         });
}

bool SameConstant(const GraphEditor& editor, ValueId a, ValueId b) {
  if (!editor.IsConstant(a) || !editor.IsConstant(b)) return false;
  const std::optional<Tensor> left = editor.SmallConstant(a);
  const std::optional<Tensor> right = editor.SmallConstant(b);
  return left && right && left->type() == right->type() && left->shape() == right->shape() &&
         left->type() != DataType::kString &&
         std::memcmp(left->raw_data(), right->raw_data(), static_cast<size_t>(left->size_bytes())) == 0;
}

bool IsRandom(const Node& node) {
  constexpr std::array<std::string_view, 7> kRandom = {
      "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
      "Multinomial",  "Bernoulli",        "Dropout"};
  return std::find(kRandom.begin(), kRandom.end(), node.op_type.view()) != kRandom.end();
}

class CommonSubexpressions : public Rewrite {
 public:
  std::string_view name() const override { return "common-subexpressions"; }
  std::vector<std::string_view> roots() const override { return {}; }

  bool Apply(GraphEditor& editor, NodeId root) const override {
    const Node& node = editor.node(root);
    if (IsRandom(node)) return false;
    const auto shared = std::find_if(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
      return input.valid() && !editor.IsConstant(input);
    });
    if (shared == node.inputs.end()) return false;
    size_t compared = 0;
    for (const Use& use : editor.value(*shared).uses) {
      if (++compared > kMaxCandidates) return false;
      // The first in the file stays.
      if (use.node >= root || use.input_index == Use::kCapture) continue;
      if (!Same(editor, editor.node(use.node), node)) continue;
      return editor.Bypass(root, editor.Output(use.node));
    }
    return false;
  }

 private:
  static bool Same(const GraphEditor& editor, const Node& a, const Node& b) {
    if (!(a.op_type == b.op_type) || !(a.domain == b.domain) || a.since_version != b.since_version ||
        a.inputs.size() != b.inputs.size() || a.outputs.empty() || !a.outputs[0].valid() ||
        !a.Subgraphs().empty() || !b.Subgraphs().empty() || !SameAttributes(a, b)) {
      return false;
    }
    for (size_t i = 0; i < a.inputs.size(); ++i) {
      const ValueId left = a.inputs[i];
      const ValueId right = b.inputs[i];
      if (left == right) continue;
      if (!left.valid() || !right.valid() || !SameConstant(editor, left, right)) return false;
    }
    return true;
  }
};

}  // namespace

void AddCommonSubexpressions(RewriteTable& table) {
  table.push_back(std::make_unique<CommonSubexpressions>());
}

}  // namespace lamina
