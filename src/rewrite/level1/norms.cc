// Normalisation from primitives, and the sum before it.
#include "rewrite/level1/tables.h"
#include "rewrite/pattern.h"

namespace lamina {
namespace {

bool IsFloat(DataType type) {
  return type == DataType::kFloat || type == DataType::kFloat16 || type == DataType::kBfloat16;
}

// Whether the ReduceMean is over the last axis of its input and keeps it.
bool IsMeanOfLastAxis(const GraphEditor& editor, NodeId mean) {
  const SymbolicShape* shape = editor.ShapeOf(editor.Input(mean, 0));
  if (!shape || editor.Int(mean, "keepdims", 1) != 1) return false;
  std::optional<std::vector<int64_t>> axes = editor.Ints(mean, "axes");
  if (!axes && editor.Input(mean, 1).valid()) axes = editor.Integers(editor.Input(mean, 1));
  return axes && axes->size() == 1 && ((*axes)[0] == -1 || (*axes)[0] == shape->rank() - 1);
}

// Whether `vector` has one number for each channel of x.
bool IsPerChannel(const GraphEditor& editor, ValueId vector, ValueId x) {
  const SymbolicShape* shape = editor.ShapeOf(vector);
  return shape && shape->rank() == 1 && shape->dims[0].is_constant() && shape->dims[0] == editor.Dim(x, -1);
}

Pattern Square(const Pattern& x) { return OneOf({Op("Pow", {x, Number(2)}), Op("Mul", {x, x})}); }

Pattern Mean(const Pattern& x, std::string_view name) { return Op("ReduceMean", {x}).Open().Named(name); }

// x / sqrt(mean_square + epsilon), in the ways exporters write it.
Pattern DividedByDeviation(const Pattern& x, const Pattern& mean_square) {
  const Pattern deviation = Op("Sqrt", {Op("Add", {mean_square, Number("epsilon")})});
  return OneOf({Op("Mul", {x, Op("Reciprocal", {deviation})}),
                Op("Mul", {x, Op("Div", {Number(1), deviation})}), Op("Div", {x, deviation}),
                Op("Mul", {x, Op("Pow", {Op("Add", {mean_square, Number("epsilon")}), Number(-0.5)})})});
}

// The value that is normalised: x, or what was cast to it where the result has the type from before the cast.
ValueId BeforeCast(const GraphEditor& editor, ValueId x, DataType result_type) {
  if (editor.Type(x) == result_type) return x;
  const NodeId cast = editor.Producer(x);
  if (!editor.Is(cast, "Cast") || editor.Type(editor.Input(cast, 0)) != result_type) return {};
  return editor.Input(cast, 0);
}

// Replaces the match, whose nodes the caller has checked, by one normalisation of "x" over the last axis with
// "scale" and "epsilon". False where types or shapes are not those of such a node.
bool ReplaceByNorm(GraphEditor& editor, NodeId root, const Match& match, std::string_view suffix,
                   std::string_view op_type) {
  const DataType type = editor.Type(editor.Output(root));
  const ValueId x = BeforeCast(editor, match["x"], type);
  const ValueId scale = match["scale"];
  if (!x.valid() || !IsFloat(type) || editor.Type(scale) != type || !IsPerChannel(editor, scale, x) ||
      !editor.SameShape(x, editor.Output(root))) {
    return false;
  }
  const auto epsilon = static_cast<float>(*editor.Scalar(match["epsilon"]));
  editor.Replace(root, suffix,
                 {op_type,
                  kOnnxDomain,
                  {x, scale},
                  {editor.MakeAttribute("axis", int64_t{-1}), editor.MakeAttribute("epsilon", epsilon),
                   editor.MakeAttribute("stash_type", int64_t{1})}});
  return true;
}

// scale * x / sqrt(mean(x^2) + epsilon). Half precision: computed in fp32 and rounded before the scale
// (Llama) or after it (Gemma; there the casts stay around the fused node).
class RmsNorm : public Rewrite {
 public:
  RmsNorm()
      : pattern_(Op("Mul", {Maybe("Cast", DividedByDeviation(Any("x"), Mean(Square(Any("x")), "mean"))),
                            Constant("scale")})) {}
  std::string_view name() const override { return "rms-norm"; }
  std::vector<std::string_view> roots() const override { return {"Mul"}; }
  int stage() const override { return 1; }

  bool Apply(GraphEditor& editor, NodeId root) const override {
    const std::optional<Match> match = FindMatch(editor, pattern_, root);
    if (!match || !IsMeanOfLastAxis(editor, match->node(editor, "mean"))) return false;
    return ReplaceByNorm(editor, root, *match, "RMSNorm", "SimplifiedLayerNormalization");
  }

 private:
  Pattern pattern_;
};

// scale * (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon)
class LayerNorm : public Rewrite {
 public:
  LayerNorm()
      : pattern_(
            Op("Mul", {Maybe("Cast", DividedByDeviation(Centred(), Mean(Square(Any("centred")), "variance"))),
                       Constant("scale")})) {}
  std::string_view name() const override { return "layer-norm"; }
  std::vector<std::string_view> roots() const override { return {"Mul"}; }
  int stage() const override { return 1; }

  bool Apply(GraphEditor& editor, NodeId root) const override {
    const std::optional<Match> match = FindMatch(editor, pattern_, root);
    if (!match || !IsMeanOfLastAxis(editor, match->node(editor, "mean")) ||
        !IsMeanOfLastAxis(editor, match->node(editor, "variance"))) {
      return false;
    }
    return ReplaceByNorm(editor, root, *match, "LayerNorm", "LayerNormalization");
  }

 private:
  static Pattern Centred() { return Op("Sub", {Any("x"), Mean(Any("x"), "mean")}).Named("centred"); }
  Pattern pattern_;
};

// LayerNormalization(x, scale) + bias
class LayerNormBias : public Rewrite {
 public:
  LayerNormBias()
      : pattern_(Op("Add",
                    {Op("LayerNormalization", {Any("x"), Any("scale")}).Named("norm"), Constant("bias")})) {}
  std::string_view name() const override { return "layer-norm-bias"; }
  std::vector<std::string_view> roots() const override { return {"Add"}; }
  int stage() const override { return 1; }

  bool Apply(GraphEditor& editor, NodeId root) const override {
    const std::optional<Match> match = FindMatch(editor, pattern_, root);
    if (!match) return false;
    const NodeId norm = match->node(editor, "norm");
    const ValueId x = (*match)["x"];
    const ValueId bias = (*match)["bias"];
    const int64_t axis = editor.Int(norm, "axis", -1);
    const SymbolicShape* shape = editor.ShapeOf(x);
    if (!shape || (axis != -1 && axis != shape->rank() - 1) || !IsPerChannel(editor, bias, x) ||
        editor.Type(bias) != editor.Type((*match)["scale"]) || editor.node(norm).outputs.size() != 1) {
      return false;
    }
    editor.Replace(
        root, "LayerNorm",
        {"LayerNormalization", kOnnxDomain, {x, (*match)["scale"], bias}, editor.node(norm).attributes});
    return true;
  }

 private:
  Pattern pattern_;
};

// The residual sum and its normalisation in one pass. The sum stays an output where others read it.
class SkipNorm : public Rewrite {
 public:
  std::string_view name() const override { return "skip-norm"; }
  std::vector<std::string_view> roots() const override {
    return {"SimplifiedLayerNormalization", "RMSNormalization", "LayerNormalization"};
  }
  int stage() const override { return 2; }

  bool Apply(GraphEditor& editor, NodeId root) const override {
    const Node& norm = editor.node(root);
    if (!norm.domain.empty() || norm.inputs.size() < 2) return false;
    for (size_t i = 1; i < norm.outputs.size(); ++i) {
      if (!editor.IsUnused(norm.outputs[i])) return false;
    }
    const ValueId sum = norm.inputs[0];
    const ValueId scale = norm.inputs[1];
    const NodeId add = editor.Producer(sum);
    const SymbolicShape* shape = editor.ShapeOf(sum);
    if (!editor.Is(add, "Add") || !shape || (shape->rank() != 2 && shape->rank() != 3)) return false;
    const int64_t axis = editor.Int(root, "axis", -1);
    const DataType type = editor.Type(sum);
    const NodeId both[] = {root, add};
    if ((axis != -1 && axis != shape->rank() - 1) || !IsFloat(type) || editor.Type(scale) != type ||
        !IsPerChannel(editor, scale, sum) || !editor.OnOneProvider(both)) {
      return false;
    }
    const ValueId left = editor.Input(add, 0);
    const ValueId right = editor.Input(add, 1);
    if (!editor.SameShape(left, sum) || !editor.SameShape(right, sum)) return false;
    const bool is_layer_norm = norm.op_type == "LayerNormalization";
    std::vector<ValueId> inputs = {left, right, scale};
    if (is_layer_norm && norm.inputs.size() > 2 && norm.inputs[2].valid()) {
      if (!IsPerChannel(editor, norm.inputs[2], sum) || editor.Type(norm.inputs[2]) != type) return false;
      inputs.push_back(norm.inputs[2]);
    }
    std::vector<ValueId> outputs = {norm.outputs[0]};
    if (!editor.OnlyUsedBy(sum, root)) outputs.insert(outputs.end(), {ValueId(), ValueId(), sum});
    const float epsilon = editor.Float(root, "epsilon", 1e-5f);
    editor.Replace(root, "SkipLayerNorm",
                   {is_layer_norm ? "SkipLayerNormalization" : "SkipSimplifiedLayerNormalization",
                    kMicrosoftDomain,
                    std::move(inputs),
                    {editor.MakeAttribute("epsilon", epsilon)}},
                   std::move(outputs));
    editor.RemoveIfUnused(add);
    return true;
  }
};

}  // namespace

void AddNormRewrites(RewriteTable& table) {
  // The RMS form of a centred value is a part of the other.
  table.push_back(std::make_unique<LayerNorm>());
  table.push_back(std::make_unique<RmsNorm>());
  table.push_back(std::make_unique<LayerNormBias>());
  table.push_back(std::make_unique<SkipNorm>());
}

}  // namespace lamina
