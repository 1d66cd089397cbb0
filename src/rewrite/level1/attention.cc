// The attention of torch exports: one node with a cache that can grow in place, and its mask.
#include <array>
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

bool IsPerm(const GraphEditor& editor, NodeId transpose, const std::vector<int64_t>& perm) {
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

// What one side (query, key or value) is made of: tokens by hidden size, or by heads where something (a norm)
// works on them.
struct Side {
  ValueId by_head;  // [batch, sequence, heads, size]
  ValueId hidden;   // [batch, sequence, heads * size] that by_head is a view of; may be invalid
  int64_t heads = 0;
  int64_t size = 0;
};

std::optional<Side> SideByHead(const GraphEditor& editor, ValueId by_head) {
  Side side;
  side.by_head = by_head;
  const SymbolicShape* shape = editor.ShapeOf(side.by_head);
  if (!shape || shape->rank() != 4) return {};
  side.heads = shape->dims[2].constant().value_or(0);
  side.size = shape->dims[3].constant().value_or(0);
  if (side.heads <= 0 || side.size <= 0) return {};
  const NodeId reshape = editor.Producer(side.by_head);
  if (!editor.Is(reshape, "Reshape")) return side;
  const SymbolicShape* from = editor.ShapeOf(editor.Input(reshape, 0));
  if (from && from->rank() == 3 && from->dims[0] == shape->dims[0] && from->dims[1] == shape->dims[1] &&
      from->dims[2].Is(side.heads * side.size)) {
    side.hidden = editor.Input(reshape, 0);
  }
  return side;
}

// `heads` [batch, heads, tokens, size] as transpose(by_head).
std::optional<Side> SideOf(const GraphEditor& editor, ValueId heads) {
  const NodeId transpose = editor.Producer(heads);
  if (!editor.Is(transpose, "Transpose") || !IsPerm(editor, transpose, {0, 2, 1, 3})) return {};
  return SideByHead(editor, editor.Input(transpose, 0));
}

// The side [batch, sequence, heads * size]; adds a Reshape where there is none.
ValueId HiddenOf(GraphEditor& editor, NodeId root, const Side& side) {
  if (side.hidden.valid()) return side.hidden;
  const SymbolicShape& from = *editor.ShapeOf(side.by_head);
  const int64_t width = side.heads * side.size;
  const ValueId target = editor.AddIntegers(editor.value(side.by_head).name.str() + "/hidden_shape",
                                            std::array<int64_t, 3>{0, 0, width});
  return editor.AddNode(root, "Hidden", {"Reshape", kOnnxDomain, {side.by_head, target}},
                        editor.value(side.by_head).type, SymbolicShape{{from.dims[0], from.dims[1], width}});
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

// softmax(scale q k^T + mask) v, from the products to the hidden size: with past and present, or rotated, as
// GroupQueryAttention, else as MultiHeadAttention. The mask says all about who sees whom, so the attention is
// not causal by itself.
class CachedAttention : public Rewrite {
 public:
  CachedAttention() : pattern_(Picture()) {}
  std::string_view name() const override { return "cached-attention"; }
  std::vector<std::string_view> roots() const override { return {"Reshape"}; }
  int stage() const override { return 2; }

  bool Apply(GraphEditor& editor, NodeId root) const override {
    const std::optional<Match> match = FindMatch(editor, pattern_, root);
    if (!match || !AxesFit(editor, *match)) return false;
    Parts parts;
    // Keys that are nothing but transposed are transposed once.
    const bool is_plain_key = IsPerm(editor, match->node(editor, "key_transposed"), {0, 2, 3, 1});
    if (!is_plain_key) parts.present_key = BeforeRepetition(editor, (*match)["key"]);
    parts.present_value = BeforeRepetition(editor, (*match)["value"]);
    const std::optional<Cache> keys = CacheOf(editor, parts.present_key);
    const std::optional<Cache> values = CacheOf(editor, parts.present_value);
    if (keys.has_value() != values.has_value()) return false;
    parts.query = RotationOf(editor, (*match)["query"]);
    parts.key = RotationOf(editor, keys ? keys->fresh : parts.present_key);
    const std::optional<Side> q = SideOf(editor, parts.query.x);
    const std::optional<Side> k =
        is_plain_key ? SideByHead(editor, (*match)["key"]) : SideOf(editor, parts.key.x);
    const std::optional<Side> v = SideOf(editor, values ? values->fresh : parts.present_value);
    if (!q || !k || !v) return false;
    parts.q = *q;
    parts.k = *k;
    parts.v = *v;
    if (!SidesFit(editor, root, parts) || !RotationFits(editor, parts)) return false;
    if (keys) {
      parts.past_key = keys->past;
      parts.past_value = values->past;
      if (!PastFits(editor, keys->past, *k) || !PastFits(editor, values->past, *v)) return false;
    }
    parts.mask = (*match)["mask"];
    if (parts.mask.valid() && !MaskFits(editor, parts)) return false;
    const std::optional<float> scale = ScaleOf(editor, *match);
    if (!scale) return false;
    const bool is_grouped = keys || parts.rotates() || q->heads != k->heads;
    if (!is_grouped) {
      ReplaceByMultiHead(editor, root, parts, *scale);
      return true;
    }
    // One run of tokens for all three.
    if (!(editor.Dim(q->by_head, 1) == editor.Dim(k->by_head, 1))) return false;
    ReplaceByGrouped(editor, root, parts, *scale);
    return true;
  }

 private:
  struct Parts {
    Side q, k, v;
    Rotated query, key;
    ValueId past_key, past_value;        // invalid where there is no past
    ValueId present_key, present_value;  // keys and values of all tokens
    ValueId mask;
    bool rotates() const { return query.cos.valid(); }
  };

  static void ReplaceByMultiHead(GraphEditor& editor, NodeId root, const Parts& parts, float scale) {
    std::vector<ValueId> inputs = {HiddenOf(editor, root, parts.q), HiddenOf(editor, root, parts.k),
                                   HiddenOf(editor, root, parts.v)};
    if (parts.mask.valid()) inputs.insert(inputs.end(), {ValueId(), ValueId(), parts.mask});
    editor.Replace(
        root, "MultiHeadAttention",
        {"MultiHeadAttention",
         kMicrosoftDomain,
         std::move(inputs),
         {editor.MakeAttribute("num_heads", parts.q.heads), editor.MakeAttribute("scale", scale)}});
  }

  static void ReplaceByGrouped(GraphEditor& editor, NodeId root, const Parts& parts, float scale) {
    std::vector<ValueId> inputs = {HiddenOf(editor, root, parts.q), HiddenOf(editor, root, parts.k),
                                   HiddenOf(editor, root, parts.v), parts.past_key, parts.past_value};
    if (parts.rotates() || parts.mask.valid()) {
      inputs.insert(inputs.end(), {ValueId(), ValueId(), parts.query.cos, parts.query.sin});
    }
    if (parts.mask.valid()) inputs.insert(inputs.end(), {ValueId(), parts.mask});
    std::vector<Attribute> attributes = {
        editor.MakeAttribute("num_heads", parts.q.heads),
        editor.MakeAttribute("kv_num_heads", parts.k.heads),
        editor.MakeAttribute("scale", scale),
        editor.MakeAttribute("do_rotary", int64_t{parts.rotates() ? 1 : 0}),
        editor.MakeAttribute("rotary_interleaved", int64_t{parts.query.interleaved ? 1 : 0}),
        editor.MakeAttribute("causal", int64_t{0})};
    if (IsCausalMask(editor, parts.mask)) {
      attributes.push_back(editor.MakeAttribute("mask_is_causal", int64_t{1}));
    }
    NodeSpec spec{"GroupQueryAttention", kMicrosoftDomain, std::move(inputs), std::move(attributes)};
    if (!parts.past_key.valid()) {
      // The kernel keeps keys and values in outputs that nobody reads.
      const ValueType type = editor.value(parts.k.by_head).type;
      const ValueId key = editor.graph().MakeValue({}, type);
      const ValueId value = editor.graph().MakeValue({}, type);
      editor.Replace(root, "GroupQueryAttention", std::move(spec), {editor.Output(root), key, value});
      return;
    }
    const NodeId key_concat = editor.Producer(parts.present_key);
    const NodeId value_concat = editor.Producer(parts.present_value);
    editor.Replace(root, "GroupQueryAttention", std::move(spec),
                   {editor.Output(root), parts.present_key, parts.present_value});
    editor.RemoveIfUnused(key_concat);
    editor.RemoveIfUnused(value_concat);
  }

  // Whether the mask hides every key behind its query, by so much that hidden keys weigh nothing beside one
  // that is seen.
  static bool IsCausalMask(const GraphEditor& editor, ValueId mask) {
    constexpr float kHides = -1e4f;
    const NodeId node = editor.Producer(mask);
    return editor.Is(node, "CausalMask", kLaminaDomain) && editor.Float(node, "masked", 0) <= kHides;
  }

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
    const NodeId key = match.node(editor, "key_transposed");
    return (axis == -1 || axis == 3) &&
           (IsPerm(editor, key, {0, 1, 3, 2}) || IsPerm(editor, key, {0, 2, 3, 1})) &&
           IsPerm(editor, match.node(editor, "by_token"), {0, 2, 1, 3});
  }

  static bool SidesFit(const GraphEditor& editor, NodeId root, const Parts& parts) {
    const Side &q = parts.q, &k = parts.k, &v = parts.v;
    const DataType type = editor.Type(q.by_head);
    const bool is_float =
        type == DataType::kFloat || type == DataType::kFloat16 || type == DataType::kBfloat16;
    const SymbolicShape* output = editor.ShapeOf(editor.Output(root));
    return is_float && output && output->rank() == 3 && output->dims[0] == editor.Dim(q.by_head, 0) &&
           output->dims[1] == editor.Dim(q.by_head, 1) && output->dims[2].Is(q.heads * q.size) &&
           editor.Type(k.by_head) == type && editor.Type(v.by_head) == type &&
           editor.Type(editor.Output(root)) == type && editor.SameShape(k.by_head, v.by_head) &&
           q.size == k.size && k.size == v.size && q.heads % k.heads == 0 && q.size % 8 == 0 &&
           editor.Dim(q.by_head, 0) == editor.Dim(k.by_head, 0);
  }

  static bool RotationFits(const GraphEditor& editor, const Parts& parts) {
    const Rotated& rotated = parts.query;
    if (rotated.cos != parts.key.cos || rotated.sin != parts.key.sin ||
        rotated.interleaved != parts.key.interleaved) {
      return false;
    }
    if (!parts.rotates()) return true;
    const SymbolicShape* cos = editor.ShapeOf(rotated.cos);
    const ValueId tokens = parts.q.by_head;
    return parts.q.size % 16 == 0 && cos->dims[2].Is(parts.q.size / 2) &&
           editor.SameShape(rotated.cos, rotated.sin) && cos->dims[0] == editor.Dim(tokens, 0) &&
           cos->dims[1] == editor.Dim(tokens, 1) && editor.Type(rotated.cos) == editor.Type(tokens) &&
           editor.Type(rotated.sin) == editor.Type(tokens);
  }

  static bool PastFits(const GraphEditor& editor, ValueId past, const Side& side) {
    const SymbolicShape* shape = editor.ShapeOf(past);
    return shape && shape->rank() == 4 && editor.Type(past) == editor.Type(side.by_head) &&
           shape->dims[0] == editor.Dim(side.by_head, 0) && shape->dims[1].Is(side.heads) &&
           shape->dims[3].Is(side.size);
  }

  // [batch or 1, heads or 1, sequence or 1, keys]
  static bool MaskFits(const GraphEditor& editor, const Parts& parts) {
    const SymbolicShape* shape = editor.ShapeOf(parts.mask);
    const ValueId tokens = parts.q.by_head;
    return shape && shape->rank() == 4 && editor.Type(parts.mask) == editor.Type(tokens) &&
           (shape->dims[0].Is(1) || shape->dims[0] == editor.Dim(tokens, 0)) &&
           (shape->dims[1].Is(1) || shape->dims[1].Is(parts.q.heads)) &&
           (shape->dims[2].Is(1) || shape->dims[2] == editor.Dim(tokens, 1)) &&
           shape->dims[3] ==
               (parts.past_key.valid() ? editor.Dim(parts.present_key, 2) : editor.Dim(parts.k.by_head, 1));
  }

  static std::optional<float> ScaleOf(const GraphEditor& editor, const Match& match) {
    const ValueId divisor = match["divisor"];
    const std::optional<double> number = editor.Scalar(divisor.valid() ? divisor : match["scale"]);
    if (!number || *number == 0) return {};
    return static_cast<float>(divisor.valid() ? 1 / *number : *number);
  }

  Pattern pattern_;
};

// Queries and keys that are normalised head by head before a GroupQueryAttention: it does that itself.
class QueryKeyNorm : public Rewrite {
 public:
  std::string_view name() const override { return "query-key-norm"; }
  std::vector<std::string_view> roots() const override { return {"GroupQueryAttention"}; }
  int stage() const override { return 2; }

  bool Apply(GraphEditor& editor, NodeId root) const override {
    constexpr size_t kQueryNorm = 14, kKeyNorm = 15;
    std::vector<ValueId> inputs = editor.node(root).inputs;
    if (inputs.size() > kKeyNorm && (inputs[kQueryNorm].valid() || inputs[kKeyNorm].valid())) return false;
    const std::optional<Norm> query = NormOf(editor, root, 0);
    const std::optional<Norm> key = NormOf(editor, root, 1);
    if (!query || !key || query->epsilon != key->epsilon ||
        !editor.OnOneProvider(NodesOf(root, *query, *key))) {
      return false;
    }
    inputs.resize(kKeyNorm + 1);
    inputs[0] = query->hidden;
    inputs[1] = key->hidden;
    inputs[kQueryNorm] = query->scale;
    inputs[kKeyNorm] = key->scale;
    std::vector<Attribute> attributes = editor.node(root).attributes;
    attributes.push_back(editor.MakeAttribute("qk_norm_epsilon", query->epsilon));
    editor.Replace(root, "GroupQueryAttention",
                   {"GroupQueryAttention", kMicrosoftDomain, std::move(inputs), std::move(attributes)});
    return true;
  }

 private:
  struct Norm {
    NodeId node;
    ValueId hidden;  // [batch, sequence, heads * size]
    ValueId scale;   // [size]
    float epsilon = 0;
  };

  static std::vector<NodeId> NodesOf(NodeId root, const Norm& query, const Norm& key) {
    return {root, query.node, key.node};
  }

  // Input `index` of the attention as reshape(norm(reshape(hidden))).
  static std::optional<Norm> NormOf(const GraphEditor& editor, NodeId attention, size_t index) {
    const ValueId input = editor.Input(attention, index);
    const NodeId merged = editor.Producer(input);
    if (!editor.Is(merged, "Reshape") || !editor.OnlyUsedBy(input, attention)) return {};
    const ValueId normalised = editor.Input(merged, 0);
    Norm norm;
    norm.node = editor.Producer(normalised);
    if (!editor.Is(norm.node, "SimplifiedLayerNormalization") || !editor.OnlyUsedBy(normalised, merged))
      return {};
    const NodeId split = editor.Producer(editor.Input(norm.node, 0));
    if (!editor.Is(split, "Reshape")) return {};
    norm.hidden = editor.Input(split, 0);
    norm.scale = editor.Input(norm.node, 1);
    norm.epsilon = editor.Float(norm.node, "epsilon", 1e-5f);
    const SymbolicShape* by_head = editor.ShapeOf(normalised);
    const SymbolicShape* scale = editor.ShapeOf(norm.scale);
    const char* heads = index == 0 ? "num_heads" : "kv_num_heads";
    const int64_t axis = editor.Int(norm.node, "axis", -1);
    const bool fits = by_head && by_head->rank() == 4 &&
                      by_head->dims[2].Is(editor.Int(attention, heads, 0)) && (axis == -1 || axis == 3) &&
                      scale && scale->rank() == 1 && scale->dims[0] == by_head->dims[3] &&
                      editor.Type(norm.scale) == editor.Type(input) && editor.SameShape(norm.hidden, input) &&
                      editor.Dim(norm.hidden, 1) == by_head->dims[1];
    return fits ? std::optional(norm) : std::nullopt;
  }
};

}  // namespace

void AddAttentionRewrites(RewriteTable& table) {
  table.push_back(std::make_unique<CausalMask>());
  table.push_back(std::make_unique<CachedAttention>());
  table.push_back(std::make_unique<QueryKeyNorm>());
}

}  // namespace lamina
