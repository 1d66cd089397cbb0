// Rotary embedding written out as slices, negation, concatenation and products.
//
//   half:         y = x cos + concat(-x2, x1) sin           with x1, x2 the halves of a head
//   interleaved:  y = x cos + reshape(stack(-x_odd, x_even)) sin
//
// cos and sin are [batch, sequence, head_size], in which every number of a pair stands twice: one half after
// the other, or each twice in a row. They are made of angles [batch, sequence, head_size / 2], or looked up
// in constant tables [positions, head_size].
#include <algorithm>
#include <string>

#include "rewrite/level1/tables.h"
#include "rewrite/pattern.h"

namespace lamina {
namespace {

// A Slice along one axis with constant bounds.
struct SliceRange {
  int axis = 0;
  int64_t start = 0;
  int64_t end = 0;
  int64_t step = 1;
};

std::optional<SliceRange> RangeOf(const GraphEditor& editor, NodeId slice) {
  const auto only = [&](size_t input) -> std::optional<int64_t> {
    const std::optional<std::vector<int64_t>> values = editor.Integers(editor.Input(slice, input));
    return values && values->size() == 1 ? std::optional((*values)[0]) : std::nullopt;
  };
  const SymbolicShape* shape = editor.ShapeOf(editor.Input(slice, 0));
  const std::optional<int64_t> start = only(1), end = only(2), axis = only(3);
  const std::optional<int64_t> step = editor.Input(slice, 4).valid() ? only(4) : std::optional<int64_t>(1);
  if (!shape || !start || !end || !axis || !step || *step <= 0) return {};
  const int64_t at = *axis < 0 ? *axis + shape->rank() : *axis;
  if (at < 0 || at >= shape->rank()) return {};
  const std::optional<int64_t> size = shape->dims[static_cast<size_t>(at)].constant();
  if (!size) return {};
  const auto clamp = [&](int64_t index) {
    return std::clamp<int64_t>(index < 0 ? index + *size : index, 0, *size);
  };
  return SliceRange{static_cast<int>(at), clamp(*start), clamp(*end), *step};
}

bool IsRange(const GraphEditor& editor, NodeId slice, int axis, int64_t start, int64_t end, int64_t step) {
  const std::optional<SliceRange> range = RangeOf(editor, slice);
  return range && range->axis == axis && range->start == start && range->end == end && range->step == step;
}

bool IsLastAxis(const GraphEditor& editor, NodeId concat) {
  const SymbolicShape* shape = editor.ShapeOf(editor.Output(concat));
  const int64_t axis = editor.Int(concat, "axis", 0);
  return shape && (axis == -1 || axis == shape->rank() - 1);
}

Pattern SliceOf(const Pattern& x, std::string_view name) { return Op("Slice", {x}).Open().Named(name); }

// cos or sin, with an axis of 1 for the heads: of doubled angles and times a factor, or any doubled numbers.
struct TableNames {
  std::string_view factor;
  std::string_view given;
  std::string_view table;
};
constexpr TableNames kCos = {"cos_factor", "cos_given", "cos_table"};
constexpr TableNames kSin = {"sin_factor", "sin_given", "sin_table"};

Pattern Table(std::string_view function, const TableNames& names) {
  const Pattern computed = Op(function, {Any("doubled")}).Shared();
  return Op("Unsqueeze",
            {OneOf({Op("Mul", {computed, Number(names.factor)}).Shared(), computed, Any(names.given)})})
      .Open()
      .Shared()
      .Named(names.table);
}

class RotaryEmbedding : public Rewrite {
 public:
  RotaryEmbedding() : half_(Sum(HalfTurned())), interleaved_(Sum(InterleavedTurned())) {}
  std::string_view name() const override { return "rotary-embedding"; }
  std::vector<std::string_view> roots() const override { return {"Add"}; }
  int stage() const override { return 1; }

  bool Apply(GraphEditor& editor, NodeId root) const override {
    for (const bool interleaved : {false, true}) {
      const std::optional<Match> match = FindMatch(editor, interleaved ? interleaved_ : half_, root);
      if (match && Fuse(editor, root, *match, interleaved)) return true;
    }
    return false;
  }

 private:
  static Pattern Sum(const Pattern& turned) {
    return Op("Add", {Op("Mul", {Any("x"), Table("Cos", kCos)}), Op("Mul", {turned, Table("Sin", kSin)})});
  }
  static Pattern HalfTurned() {
    return Op("Concat", {Op("Neg", {SliceOf(Any("x"), "negated")}), SliceOf(Any("x"), "kept")})
        .Named("turned");
  }
  static Pattern InterleavedTurned() {
    return Op("Reshape", {Op("Concat", {Op("Unsqueeze", {Op("Neg", {SliceOf(Any("x"), "negated")})}).Open(),
                                        Op("Unsqueeze", {SliceOf(Any("x"), "kept")}).Open()})
                              .Named("turned")})
        .Open();
  }

  static bool Fuse(GraphEditor& editor, NodeId root, const Match& match, bool interleaved) {
    const ValueId x = match["x"];
    const SymbolicShape* shape = editor.ShapeOf(x);
    const DataType type = editor.Type(x);
    if (!shape || shape->rank() != 4 || !editor.SameShape(x, editor.Output(root))) return false;
    if (type != DataType::kFloat && type != DataType::kFloat16 && type != DataType::kBfloat16) return false;
    const std::optional<int64_t> head_size = shape->dims[3].constant();
    if (!head_size || *head_size % 2 != 0) return false;
    if (!SlicesFit(editor, match, *head_size, interleaved)) return false;
    if (!TableFits(editor, match[kCos.table], *shape) || !TableFits(editor, match[kSin.table], *shape)) {
      return false;
    }
    const std::optional<Rotation> rotation = match["doubled"].valid()
                                                 ? ComputedRotation(editor, root, match, interleaved, *shape)
                                                 : GivenRotation(editor, root, match, interleaved, *shape);
    if (!rotation) return false;
    editor.Replace(root, "RotaryEmbedding",
                   {"RotaryEmbedding",
                    kMicrosoftDomain,
                    {x, ValueId(), rotation->cos, rotation->sin},
                    {editor.MakeAttribute("interleaved", int64_t{interleaved ? 1 : 0})}});
    return true;
  }

  // [batch, sequence, head_size / 2]
  struct Rotation {
    ValueId cos;
    ValueId sin;
  };

  static std::optional<Rotation> ComputedRotation(GraphEditor& editor, NodeId root, const Match& match,
                                                  bool interleaved, const SymbolicShape& x) {
    const ValueId angles = Undoubled(editor, match["doubled"], interleaved);
    if (!angles.valid() || match[kCos.given].valid() || match[kSin.given].valid() ||
        !PairsFit(editor, angles, x) || editor.Type(angles) != editor.Type(match["x"])) {
      return {};
    }
    return Rotation{Computed(editor, root, "Cos", angles, match[kCos.factor]),
                    Computed(editor, root, "Sin", angles, match[kSin.factor])};
  }

  static std::optional<Rotation> GivenRotation(GraphEditor& editor, NodeId root, const Match& match,
                                               bool interleaved, const SymbolicShape& x) {
    const ValueId cos = match[kCos.given], sin = match[kSin.given];
    const DataType type = editor.Type(match["x"]);
    if (!cos.valid() || !sin.valid() || editor.Type(cos) != type || editor.Type(sin) != type ||
        editor.Opset(kOnnxDomain) < 10) {
      return {};
    }
    const Rotation rotation{Undoubled(editor, cos, interleaved), Undoubled(editor, sin, interleaved)};
    if (rotation.cos.valid() && rotation.sin.valid()) {
      const bool fits = PairsFit(editor, rotation.cos, x) && PairsFit(editor, rotation.sin, x);
      return fits ? std::optional(rotation) : std::nullopt;
    }
    if (interleaved || !IsDoubledLookup(editor, cos, x) || !IsDoubledLookup(editor, sin, x)) return {};
    return Rotation{FirstHalf(editor, root, cos), FirstHalf(editor, root, sin)};
  }

  // Whether `value` is looked up in a constant table [positions, head_size] whose halves are equal, as far as
  // that is known without reading weights.
  static bool IsDoubledLookup(const GraphEditor& editor, ValueId value, const SymbolicShape& x) {
    const NodeId gather = editor.Producer(value);
    if (!editor.Is(gather, "Gather") || editor.Int(gather, "axis", 0) != 0) return false;
    const DerivedTensorPtr table = editor.ExpressionOf(editor.Input(gather, 0));
    const SymbolicShape* positions = editor.ShapeOf(editor.Input(gather, 1));
    if (!table || table->shape.rank() != 2 || !positions || positions->rank() != 2 ||
        !(positions->dims[0] == x.dims[0]) || !(positions->dims[1] == x.dims[2]) ||
        !x.dims[3].Is(table->shape[1])) {
      return false;
    }
    if (table->operation == DerivedOperation::kConcat && table->axis == 1 && table->operands.size() == 2 &&
        table->operands[0] == table->operands[1]) {
      return true;
    }
    const std::optional<Tensor> small = editor.SmallConstant(editor.Input(gather, 0));
    return small && HalvesAreEqual(*small);
  }

  static bool HalvesAreEqual(const Tensor& table) {
    const auto* bytes = static_cast<const std::byte*>(table.raw_data());
    const size_t row = table.size_bytes() / static_cast<size_t>(std::max<int64_t>(1, table.shape()[0]));
    for (size_t at = 0; at < table.size_bytes(); at += row) {
      if (!std::equal(bytes + at, bytes + at + row / 2, bytes + at + row / 2)) return false;
    }
    return true;
  }

  // Of the last axis of value [batch, sequence, head_size].
  static ValueId FirstHalf(GraphEditor& editor, NodeId root, ValueId value) {
    SymbolicShape shape = *editor.ShapeOf(value);
    const int64_t half = *shape.dims.back().constant() / 2;
    shape.dims.back() = DimExpr(half);
    const std::string name = editor.value(value).name.str();
    const auto integer = [&](const char* what, int64_t number) {
      return editor.AddIntegers(name + what, {&number, 1});
    };
    return editor.AddNode(
        root, "Half",
        {"Slice", kOnnxDomain, {value, integer("/start", 0), integer("/end", half), integer("/axis", 2)}},
        editor.value(value).type, shape);
  }

  static bool SlicesFit(const GraphEditor& editor, const Match& match, int64_t head_size, bool interleaved) {
    constexpr int kHeadAxis = 3;
    const NodeId negated = match.node(editor, "negated");
    const NodeId kept = match.node(editor, "kept");
    if (!interleaved) {
      return IsLastAxis(editor, match.node(editor, "turned")) &&
             IsRange(editor, negated, kHeadAxis, head_size / 2, head_size, 1) &&
             IsRange(editor, kept, kHeadAxis, 0, head_size / 2, 1);
    }
    // [batch, heads, sequence, pairs, 2]
    const SymbolicShape* stacked = editor.ShapeOf(match["turned"]);
    return stacked && stacked->rank() == 5 && stacked->dims[4].Is(2) &&
           IsLastAxis(editor, match.node(editor, "turned")) &&
           IsRange(editor, negated, kHeadAxis, 1, head_size, 2) &&
           IsRange(editor, kept, kHeadAxis, 0, head_size, 2);
  }

  // The numbers of pairs, where `doubled` is made of them and has each for both elements of its pair.
  static ValueId Undoubled(const GraphEditor& editor, ValueId doubled, bool interleaved) {
    const NodeId node = editor.Producer(doubled);
    if (!interleaved) {
      const bool twice = editor.Is(node, "Concat") && editor.node(node).inputs.size() == 2 &&
                         editor.Input(node, 0) == editor.Input(node, 1) && IsLastAxis(editor, node);
      return twice ? editor.Input(node, 0) : ValueId();
    }
    // repeat_interleave(2): [.., pairs] -> [.., pairs, 1] -> [.., pairs, 2] -> [.., 2 pairs]
    if (!editor.Is(node, "Reshape")) return {};
    const NodeId repeat = editor.Producer(editor.Input(node, 0));
    const bool repeats = editor.Is(repeat, "Expand") || editor.Is(repeat, "Tile") ||
                         (editor.Is(repeat, "Concat") && editor.node(repeat).inputs.size() == 2 &&
                          editor.Input(repeat, 0) == editor.Input(repeat, 1));
    if (!repeats) return {};
    const ValueId single = editor.Input(repeat, 0);
    const NodeId unsqueeze = editor.Producer(single);
    const SymbolicShape* repeated = editor.ShapeOf(editor.Output(repeat));
    const SymbolicShape* before = editor.ShapeOf(single);
    if (!editor.Is(unsqueeze, "Unsqueeze") || !repeated || !before || repeated->rank() != before->rank() ||
        !repeated->dims.back().Is(2) || !before->dims.back().Is(1)) {
      return {};
    }
    const ValueId angles = editor.Input(unsqueeze, 0);
    const SymbolicShape* shape = editor.ShapeOf(angles);
    if (!shape || shape->rank() + 1 != before->rank()) return {};
    for (size_t i = 0; i < shape->dims.size(); ++i) {
      if (!(shape->dims[i] == before->dims[i]) || !(shape->dims[i] == repeated->dims[i])) return {};
    }
    return angles;
  }

  // [batch, 1, sequence, head_size] beside x [batch, heads, sequence, head_size]
  static bool TableFits(const GraphEditor& editor, ValueId table, const SymbolicShape& x) {
    const SymbolicShape* shape = editor.ShapeOf(table);
    return shape && shape->rank() == 4 && shape->dims[0] == x.dims[0] && shape->dims[1].Is(1) &&
           shape->dims[2] == x.dims[2] && shape->dims[3] == x.dims[3];
  }

  // [batch, sequence, head_size / 2]
  static bool PairsFit(const GraphEditor& editor, ValueId pairs, const SymbolicShape& x) {
    const SymbolicShape* shape = editor.ShapeOf(pairs);
    return shape && shape->rank() == 3 && shape->dims[0] == x.dims[0] && shape->dims[1] == x.dims[2] &&
           shape->dims[2].Is(*x.dims[3].constant() / 2);
  }

  static ValueId Computed(GraphEditor& editor, NodeId root, std::string_view function, ValueId angles,
                          ValueId factor) {
    const ValueType type = editor.value(angles).type;
    const std::optional<SymbolicShape> shape = editor.value(angles).shape;
    ValueId result = editor.AddNode(root, function, {function, kOnnxDomain, {angles}}, type, shape);
    if (!factor.valid()) return result;
    return editor.AddNode(root, "Mul", {"Mul", kOnnxDomain, {result, factor}}, type, shape);
  }

  Pattern half_;
  Pattern interleaved_;
};

}  // namespace

void AddRotaryRewrites(RewriteTable& table) { table.push_back(std::make_unique<RotaryEmbedding>()); }

}  // namespace lamina
