// Activations from primitives.
#include <cmath>

#include "rewrite/level1/tables.h"
#include "rewrite/pattern.h"

namespace lamina {
namespace {

bool IsHalfOrFloat(DataType type) {
  return type == DataType::kFloat || type == DataType::kFloat16 || type == DataType::kBfloat16;
}

// A pattern of one value x that becomes one node.
class UnaryFusion : public Rewrite {
 public:
  UnaryFusion(std::string_view name, Pattern pattern, std::string_view op_type)
      : name_(name), pattern_(std::move(pattern)), op_type_(op_type) {}
  std::string_view name() const override { return name_; }
  std::vector<std::string_view> roots() const override { return {"Mul"}; }
  int stage() const override { return 1; }

  bool Apply(GraphEditor& editor, NodeId root) const override {
    const std::optional<Match> match = FindMatch(editor, pattern_, root);
    if (!match) return false;
    const ValueId x = (*match)["x"];
    if (!IsHalfOrFloat(editor.Type(x)) || !editor.SameShape(x, editor.Output(root))) return false;
    std::vector<Attribute> attributes;
    if (const ValueId alpha = (*match)["alpha"]; alpha.valid()) {
      attributes.push_back(editor.MakeAttribute("alpha", static_cast<float>(*editor.Scalar(alpha))));
    } else if (op_type_ == "QuickGelu") {
      attributes.push_back(editor.MakeAttribute("alpha", 1.0f));
    }
    editor.Replace(root, op_type_, {op_type_, kMicrosoftDomain, {x}, std::move(attributes)});
    return true;
  }

 private:
  std::string_view name_;
  Pattern pattern_;
  std::string_view op_type_;
};

// x * sigmoid(x), x * sigmoid(alpha * x)
Pattern Silu() {
  return OneOf({Op("Mul", {Any("x"), Op("Sigmoid", {Any("x")})}),
                Op("Mul", {Any("x"), Op("Sigmoid", {Op("Mul", {Any("x"), Number("alpha")})})})});
}

// 0.5 * x * (1 + f), in any order of the factors
Pattern HalfTimesOnePlus(const Pattern& f) {
  const Pattern one_plus = Op("Add", {f, Number(1)});
  return OneOf({Op("Mul", {Op("Mul", {Any("x"), one_plus}), Number(0.5)}),
                Op("Mul", {Op("Mul", {Any("x"), Number(0.5)}), one_plus}),
                Op("Mul", {Any("x"), Op("Mul", {one_plus, Number(0.5)})})});
}

Pattern GeluErf() {
  return HalfTimesOnePlus(Op("Erf", {OneOf({Op("Div", {Any("x"), Number(std::sqrt(2.0))}),
                                            Op("Mul", {Any("x"), Number(std::sqrt(0.5))})})}));
}

// tanh(sqrt(2/pi) * (x + 0.044715 x^3))
Pattern GeluTanh() {
  const Pattern cube =
      OneOf({Op("Pow", {Any("x"), Number(3)}), Op("Mul", {Any("x"), Op("Mul", {Any("x"), Any("x")})})});
  const Pattern sum = Op("Add", {Any("x"), Op("Mul", {cube, Number(0.044715)})});
  return HalfTimesOnePlus(Op("Tanh", {Op("Mul", {sum, Number(std::sqrt(2 / M_PI))})}));
}

// silu(gate) * up
class SwiGlu : public Rewrite {
 public:
  SwiGlu()
      : pattern_(
            Op("Mul", {Op("QuickGelu", {Any("gate")}).In(kMicrosoftDomain).Named("activated"), Any("up")})) {}
  std::string_view name() const override { return "swiglu"; }
  std::vector<std::string_view> roots() const override { return {"Mul"}; }
  int stage() const override { return 2; }

  bool Apply(GraphEditor& editor, NodeId root) const override {
    const std::optional<Match> match = FindMatch(editor, pattern_, root);
    if (!match) return false;
    const ValueId gate = (*match)["gate"];
    const ValueId up = (*match)["up"];
    if (!editor.SameShape(gate, up) || editor.Type(gate) != editor.Type(up)) return false;
    const float alpha = editor.Float(match->node(editor, "activated"), "alpha", 1.702f);
    editor.Replace(root, "SwiGLU",
                   {"SwiGLU", kLaminaDomain, {gate, up}, {editor.MakeAttribute("alpha", alpha)}});
    return true;
  }

 private:
  Pattern pattern_;
};

}  // namespace

void AddActivationRewrites(RewriteTable& table) {
  table.push_back(std::make_unique<UnaryFusion>("silu", Silu(), "QuickGelu"));
  table.push_back(std::make_unique<UnaryFusion>("gelu", GeluErf(), "Gelu"));
  table.push_back(std::make_unique<UnaryFusion>("fast-gelu", GeluTanh(), "FastGelu"));
  table.push_back(std::make_unique<SwiGlu>());
}

}  // namespace lamina
