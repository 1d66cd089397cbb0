// The attention of torch exports: one node with a cache that can grow in place, and its mask.
#include <cmath>

#include "rewrite/level1/tables.h"
#include "rewrite/mask_terms.h"
#include "rewrite/pattern.h"

namespace lamina {
namespace {

// where(visible, 0, masked) with a causal mask over a padding mask becomes CausalMask.
class CausalMask : public Rewrite {
 public:
  CausalMask() : pattern_(Op("Where", {Any("visible"), Number(0), Number("masked")})) {}
  std::string_view name() const override { return "causal-mask"; }
  std::vector<std::string_view> roots() const override { return {"Where"}; }
  int stage() const override { return 1; }

  bool Apply(GraphEditor& editor, NodeId root) const override {
    const std::optional<Match> match = FindMatch(editor, pattern_, root);
    if (!match || editor.Type(editor.Output(root)) != DataType::kFloat) return false;
    const ValueId visible = (*match)["visible"];
    if (!editor.SameShape(visible, editor.Output(root))) return false;
    const std::optional<CausalMaskForm> form = CausalMaskOf(editor, visible);
    if (!form) return false;
    const SymbolicShape& shape = *editor.ShapeOf(visible);
    const ValueId tokens = TokensOf(editor, shape.dims[0], shape.dims[2]);
    if (!tokens.valid()) return false;
    const auto masked = static_cast<float>(*editor.Scalar((*match)["masked"]));
    editor.Replace(root, "CausalMask",
                   {"CausalMask",
                    kLaminaDomain,
                    {form->padding, tokens},
                    {editor.MakeAttribute("masked", masked), editor.MakeAttribute("window", form->window)}});
    return true;
  }

 private:
  // An input of the graph [batch, sequence, ..]: its shape says how many queries there are.
  static ValueId TokensOf(const GraphEditor& editor, const DimExpr& batch, const DimExpr& sequence) {
    for (const ValueId input : editor.graph().inputs()) {
      const SymbolicShape* shape = editor.ShapeOf(input);
      if (shape && shape->rank() >= 2 && shape->dims[0] == batch && shape->dims[1] == sequence) return input;
    }
    return {};
  }

  Pattern pattern_;
};

bool IsPerm(const GraphEditor& editor, NodeId transpose, std::vector<int64_t> perm) {
  return editor.Ints(transpose, "perm") == perm;
}

// The three inputs of a rotation; without one, x alone.
struct Rotated {
  ValueId x;
  ValueId cos;
  ValueId sin;
  bool interleaved = false;
};

// A RotaryEmbedding over whole heads, with caches that have a row for each token.
Rotated RotationOf(const GraphEditor& editor, ValueId value) {
  const NodeId node = editor.Producer(value);
  Rotated none{value, {}, {}, false};
  Rotated rotated;
  if (editor.Is(node, "RotaryEmbedding", kMicrosoftDomain)) {
    if (editor.Input(node, 1).valid()) return none;
    rotated = {editor.Input(node, 0), editor.Input(node, 2), editor.Input(node, 3), false};
  } else if (editor.Is(node, "RotaryEmbedding")) {
    if (editor.Input(node, 3).valid()) return none;
    rotated = {editor.Input(node, 0), editor.Input(node, 1), editor.Input(node, 2), false};
  } else {
    return none;
  }
  const SymbolicShape* cache = editor.ShapeOf(rotated.cos);
  if (!cache || cache->rank() != 3) return none;
  rotated.interleaved = editor.Int(node, "interleaved", 0) != 0;
  return rotated;
}

// What one side (query, key or value) is made of: tokens by hidden size.
struct Side {
  ValueId hidden;  // [batch, sequence, heads * size]
  int64_t heads = 0;
  int64_t size = 0;
};

// `heads` as transpose(reshape(hidden)).
std::optional<Side> SideOf(const GraphEditor& editor, ValueId heads) {
  const NodeId transpose = editor.Producer(heads);
  if (!editor.Is(transpose, "Transpose") || !IsPerm(editor, transpose, {0, 2, 1, 3})) return {};
  const NodeId reshape = editor.Producer(editor.Input(transpose, 0));
  if (!editor.Is(reshape, "Reshape")) return {};
  const ValueId hidden = editor.Input(reshape, 0);
  const SymbolicShape* from = editor.ShapeOf(hidden);
  const SymbolicShape* to = editor.ShapeOf(editor.Output(reshape));
  if (!from || !to || from->rank() != 3 || to->rank() != 4 || !(from->dims[0] == to->dims[0]) ||
      !(from->dims[1] == to->dims[1]) || !(from->dims[2] == to->dims[2] * to->dims[3])) {
    return {};
  }
  const std::optional<int64_t> count = to->dims[2].constant();
  const std::optional<int64_t> size = to->dims[3].constant();
  if (!count || !size || *count <= 0 || *size <= 0) return {};
  return Side{hidden, *count, *size};
}

// Keys or values of all tokens, before every head was repeated for a group of query heads:
// reshape(expand(unsqueeze(cache, 2))), or the cache itself.
ValueId BeforeRepetition(const GraphEditor& editor, ValueId repeated) {
  const NodeId reshape = editor.Producer(repeated);
  if (!editor.Is(reshape, "Reshape")) return repeated;
  const NodeId expand = editor.Producer(editor.Input(reshape, 0));
  if (!editor.Is(expand, "Expand") && !editor.Is(expand, "Tile")) return repeated;
  const NodeId unsqueeze = editor.Producer(editor.Input(expand, 0));
  if (!editor.Is(unsqueeze, "Unsqueeze") && !editor.Is(unsqueeze, "Reshape")) return repeated;
  const ValueId cache = editor.Input(unsqueeze, 0);
  const SymbolicShape* from = editor.ShapeOf(cache);                       // [b, kv, t, h]
  const SymbolicShape* single = editor.ShapeOf(editor.Output(unsqueeze));  // [b, kv, 1, t, h]
  const SymbolicShape* grouped = editor.ShapeOf(editor.Output(expand));    // [b, kv, g, t, h]
  const SymbolicShape* to = editor.ShapeOf(repeated);                      // [b, kv g, t, h]
  if (!from || !single || !grouped || !to || from->rank() != 4 || single->rank() != 5 ||
      grouped->rank() != 5 || to->rank() != 4) {
    return repeated;
  }
  const auto same = [](const SymbolicShape& a, size_t i, const SymbolicShape& b, size_t j) {
    return a.dims[i].known() && a.dims[i] == b.dims[j];
  };
  const bool fits = single->dims[2].Is(1) && same(*from, 0, *single, 0) && same(*from, 1, *single, 1) &&
                    same(*from, 2, *single, 3) && same(*from, 3, *single, 4) && same(*from, 0, *grouped, 0) &&
                    same(*from, 1, *grouped, 1) && same(*from, 2, *grouped, 3) &&
                    same(*from, 3, *grouped, 4) && same(*from, 0, *to, 0) &&
                    to->dims[1] == from->dims[1] * grouped->dims[2] && same(*from, 2, *to, 2) &&
                    same(*from, 3, *to, 3);
  return fits ? cache : repeated;
}

// concat(past, fresh) over tokens.
struct Cache {
  ValueId past;
  ValueId fresh;
};
std::optional<Cache> CacheOf(const GraphEditor& editor, ValueId present) {
  const NodeId concat = editor.Producer(present);
  const SymbolicShape* shape = editor.ShapeOf(present);
  if (!editor.Is(concat, "Concat") || editor.node(concat).inputs.size() != 2 || !shape || shape->rank() != 4)
    return {};
  const int64_t axis = editor.Int(concat, "axis", 0);
  if (axis != 2 && axis != -2) return {};
  return Cache{editor.Input(concat, 0), editor.Input(concat, 1)};
}

// softmax(scale q k^T + mask) v with past and present, from the products to the hidden size, as
// GroupQueryAttention. Its mask says all about who sees whom, so it is not causal by itself.
class CachedAttention : public Rewrite {
 public:
  CachedAttention() : pattern_(Picture()) {}
  std::string_view name() const override { return "cached-attention"; }
  std::vector<std::string_view> roots() const override { return {"Reshape"}; }
  int stage() const override { return 2; }

  bool Apply(GraphEditor& editor, NodeId root) const override {
    const std::optional<Match> match = FindMatch(editor, pattern_, root);
    if (!match || !AxesFit(editor, *match)) return false;
    const ValueId present_key = BeforeRepetition(editor, (*match)["key"]);
    const ValueId present_value = BeforeRepetition(editor, (*match)["value"]);
    const std::optional<Cache> keys = CacheOf(editor, present_key);
    const std::optional<Cache> values = CacheOf(editor, present_value);
    if (!keys || !values) return false;
    const Rotated query = RotationOf(editor, (*match)["query"]);
    const Rotated key = RotationOf(editor, keys->fresh);
    const std::optional<Side> q = SideOf(editor, query.x);
    const std::optional<Side> k = SideOf(editor, key.x);
    const std::optional<Side> v = SideOf(editor, values->fresh);
    if (!q || !k || !v || !SidesFit(editor, root, *q, *k, *v)) return false;
    if (query.cos != key.cos || query.sin != key.sin || query.interleaved != key.interleaved) return false;
    const bool rotates = query.cos.valid();
    if (rotates && !RotationFits(editor, query, *q)) return false;
    if (!PastFits(editor, keys->past, *k) || !PastFits(editor, values->past, *v)) return false;
    const ValueId mask = (*match)["mask"];
    if (mask.valid() && !MaskFits(editor, mask, present_key, *q)) return false;
    std::optional<float> scale = ScaleOf(editor, *match);
    if (!scale) return false;

    std::vector<ValueId> inputs = {q->hidden, k->hidden, v->hidden, keys->past, values->past};
    if (rotates || mask.valid()) {
      inputs.insert(inputs.end(), {ValueId(), ValueId(), query.cos, query.sin});
    }
    if (mask.valid()) inputs.insert(inputs.end(), {ValueId(), mask});
    const NodeId key_concat = editor.Producer(present_key);
    const NodeId value_concat = editor.Producer(present_value);
    editor.Replace(
        root, "GroupQueryAttention",
        {"GroupQueryAttention",
         kMicrosoftDomain,
         std::move(inputs),
         {editor.MakeAttribute("num_heads", q->heads), editor.MakeAttribute("kv_num_heads", k->heads),
          editor.MakeAttribute("scale", *scale), editor.MakeAttribute("do_rotary", int64_t{rotates ? 1 : 0}),
          editor.MakeAttribute("rotary_interleaved", int64_t{query.interleaved ? 1 : 0}),
          editor.MakeAttribute("causal", int64_t{0})}},
        {editor.Output(root), present_key, present_value});
    editor.RemoveIfUnused(key_concat);
    editor.RemoveIfUnused(value_concat);
    return true;
  }

 private:
  static Pattern Picture() {
    const Pattern product =
        Op("MatMul", {Any("query"), Op("Transpose", {Any("key")}).Named("key_transposed")});
    const Pattern scaled =
        OneOf({Op("Mul", {product, Number("scale")}), Op("Div", {product, Number("divisor")})});
    const Pattern scores = OneOf({Op("Add", {scaled, Any("mask")}), scaled});
    const Pattern weights = Maybe("Cast", Op("Softmax", {Maybe("Cast", scores)}).Named("softmax"));
    return Op("Reshape",
              {Op("Transpose", {Op("MatMul", {weights, Any("value")})}).Named("by_token"), Any("")});
  }

  static bool AxesFit(const GraphEditor& editor, const Match& match) {
    const NodeId softmax = match.node(editor, "softmax");
    const int64_t axis = editor.Int(softmax, "axis", editor.node(softmax).since_version >= 13 ? -1 : 1);
    return (axis == -1 || axis == 3) && IsPerm(editor, match.node(editor, "key_transposed"), {0, 1, 3, 2}) &&
           IsPerm(editor, match.node(editor, "by_token"), {0, 2, 1, 3});
  }

  static bool SidesFit(const GraphEditor& editor, NodeId root, const Side& q, const Side& k, const Side& v) {
    const DataType type = editor.Type(q.hidden);
    const bool is_float =
        type == DataType::kFloat || type == DataType::kFloat16 || type == DataType::kBfloat16;
    return is_float && editor.Type(k.hidden) == type && editor.Type(v.hidden) == type &&
           editor.Type(editor.Output(root)) == type && editor.SameShape(editor.Output(root), q.hidden) &&
           editor.SameShape(k.hidden, v.hidden) && q.size == k.size && k.size == v.size &&
           k.heads == v.heads && q.heads % k.heads == 0 && q.size % 8 == 0 &&
           editor.Dim(q.hidden, 0) == editor.Dim(k.hidden, 0) &&
           editor.Dim(q.hidden, 1) == editor.Dim(k.hidden, 1);
  }

  static bool RotationFits(const GraphEditor& editor, const Rotated& rotated, const Side& q) {
    const SymbolicShape* cos = editor.ShapeOf(rotated.cos);
    const DimExpr& pairs = cos->dims[2];
    return q.size % 16 == 0 && pairs.Is(q.size / 2) && editor.SameShape(rotated.cos, rotated.sin) &&
           cos->dims[0] == editor.Dim(q.hidden, 0) && cos->dims[1] == editor.Dim(q.hidden, 1) &&
           editor.Type(rotated.cos) == editor.Type(q.hidden) &&
           editor.Type(rotated.sin) == editor.Type(q.hidden);
  }

  static bool PastFits(const GraphEditor& editor, ValueId past, const Side& side) {
    const SymbolicShape* shape = editor.ShapeOf(past);
    return shape && shape->rank() == 4 && editor.Type(past) == editor.Type(side.hidden) &&
           shape->dims[0] == editor.Dim(side.hidden, 0) && shape->dims[1].Is(side.heads) &&
           shape->dims[3].Is(side.size);
  }

  // [batch or 1, heads or 1, sequence, keys]
  static bool MaskFits(const GraphEditor& editor, ValueId mask, ValueId present_key, const Side& q) {
    const SymbolicShape* shape = editor.ShapeOf(mask);
    return shape && shape->rank() == 4 && editor.Type(mask) == editor.Type(q.hidden) &&
           (shape->dims[0].Is(1) || shape->dims[0] == editor.Dim(q.hidden, 0)) &&
           (shape->dims[1].Is(1) || shape->dims[1].Is(q.heads)) &&
           shape->dims[2] == editor.Dim(q.hidden, 1) && shape->dims[3] == editor.Dim(present_key, 2);
  }

  static std::optional<float> ScaleOf(const GraphEditor& editor, const Match& match) {
    const ValueId divisor = match["divisor"];
    const std::optional<double> number = editor.Scalar(divisor.valid() ? divisor : match["scale"]);
    if (!number || *number == 0) return {};
    return static_cast<float>(divisor.valid() ? 1 / *number : *number);
  }

  Pattern pattern_;
};

}  // namespace

void AddAttentionRewrites(RewriteTable& table) {
  table.push_back(std::make_unique<CausalMask>());
  table.push_back(std::make_unique<CachedAttention>());
}

}  // namespace lamina
