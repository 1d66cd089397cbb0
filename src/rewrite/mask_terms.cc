#include "rewrite/mask_terms.h"

#include <algorithm>
#include <utility>

namespace lamina {
namespace {

constexpr int kMaxDepth = 32;

bool IsInteger(DataType type) { return type == DataType::kInt64 || type == DataType::kInt32; }

// Which axis of `to` an axis of `from` becomes when a Reshape, Squeeze or Unsqueeze only adds and removes
// axes of size 1; -1 for axes of size 1. Nothing where it does more.
std::optional<std::vector<int>> AxisMap(const SymbolicShape& from, const SymbolicShape& to) {
  std::vector<int> map(from.dims.size(), -1);
  size_t next = 0;
  for (size_t i = 0; i < from.dims.size(); ++i) {
    if (from.dims[i].Is(1)) continue;
    while (next < to.dims.size() && to.dims[next].Is(1)) ++next;
    if (next == to.dims.size() || !from.dims[i].known() || !(from.dims[i] == to.dims[next])) return {};
    map[i] = static_cast<int>(next++);
  }
  while (next < to.dims.size() && to.dims[next].Is(1)) ++next;
  if (next != to.dims.size()) return {};
  return map;
}

LinearIndex Moved(const LinearIndex& index, const std::vector<int>& map, int rank) {
  LinearIndex moved{index.constant, std::vector<DimExpr>(static_cast<size_t>(rank), DimExpr(0))};
  for (size_t i = 0; i < map.size(); ++i) {
    if (map[i] >= 0) moved.coefficients[static_cast<size_t>(map[i])] = index.coefficients[i];
  }
  return moved;
}

// Axes of an operand in the result of a broadcast: the last ones.
std::vector<int> BroadcastMap(int rank, int result_rank) {
  std::vector<int> map;
  for (int i = 0; i < rank; ++i) map.push_back(i + result_rank - rank);
  return map;
}

LinearIndex Combined(const LinearIndex& a, const LinearIndex& b, int64_t factor_of_b) {
  LinearIndex sum = a;
  sum.constant = a.constant + b.constant * DimExpr(factor_of_b);
  for (size_t i = 0; i < sum.coefficients.size(); ++i) {
    sum.coefficients[i] = a.coefficients[i] + b.coefficients[i] * DimExpr(factor_of_b);
  }
  return sum;
}

bool IsConstantIndex(const LinearIndex& index) {
  return std::all_of(index.coefficients.begin(), index.coefficients.end(),
                     [](const DimExpr& coefficient) { return coefficient.Is(0); });
}

class Analysis {
 public:
  explicit Analysis(const GraphEditor& editor) : editor_(editor) {}

  std::optional<LinearIndex> Linear(ValueId value, int depth) const {
    const SymbolicShape* shape = editor_.ShapeOf(value);
    if (!shape || depth > kMaxDepth || !IsInteger(editor_.Type(value))) return {};
    const auto rank = static_cast<size_t>(shape->rank());
    if (std::optional<DimExpr> single = SingleElement(value)) {
      return LinearIndex{*single, std::vector<DimExpr>(rank, DimExpr(0))};
    }
    const NodeId node = editor_.Producer(value);
    if (!node.valid() || !editor_.node(node).domain.empty()) return {};
    std::optional<LinearIndex> index = LinearOfNode(node, *shape, depth);
    if (!index || index->coefficients.size() != rank) return {};
    for (size_t i = 0; i < rank; ++i) {
      if (shape->dims[i].Is(1)) index->coefficients[i] = DimExpr(0);
    }
    return index;
  }

  std::optional<MaskTerms> Terms(ValueId value, int depth) const {
    const SymbolicShape* shape = editor_.ShapeOf(value);
    if (!shape || depth > kMaxDepth || editor_.Type(value) != DataType::kBool) return {};
    if (IsTrue(value)) return MaskTerms{};
    const NodeId node = editor_.Producer(value);
    if (!node.valid() || !editor_.node(node).domain.empty()) return {};
    const std::string_view op = editor_.node(node).op_type;
    if (op == "And") return Conjunction(node, *shape, depth);
    if (op == "LessOrEqual") return Comparison(node, 1, 0, 0, *shape, depth);
    if (op == "Less") return Comparison(node, 1, 0, -1, *shape, depth);
    if (op == "GreaterOrEqual") return Comparison(node, 0, 1, 0, *shape, depth);
    if (op == "Greater") return Comparison(node, 0, 1, -1, *shape, depth);
    if (op == "Gather") return Gathered(node, *shape, depth);
    if (op == "GatherND") return GatheredNd(node, depth);
    if (op == "Reshape" || op == "Unsqueeze" || op == "Squeeze" || op == "Flatten" || op == "Expand") {
      return Reshaped(node, *shape, depth);
    }
    if (op == "Cast") return PaddingOf(editor_.Output(node));
    return {};
  }

 private:
  std::optional<DimExpr> SingleElement(ValueId value) const {
    if (const std::optional<std::vector<int64_t>> integers = editor_.Integers(value)) {
      if (integers->size() == 1) return DimExpr((*integers)[0]);
      return {};
    }
    const SymbolicElements elements = editor_.Elements(value);
    if (!elements || elements->size() != 1 || !(*elements)[0].known()) return {};
    return (*elements)[0];
  }

  bool IsTrue(ValueId value) const {
    const std::optional<Tensor> constant = editor_.SmallConstant(value);
    if (!constant) return false;
    const auto* bytes = static_cast<const uint8_t*>(constant->raw_data());
    return std::all_of(bytes, bytes + constant->num_elements(), [](uint8_t byte) { return byte == 1; });
  }

  std::optional<LinearIndex> LinearOfNode(NodeId node, const SymbolicShape& shape, int depth) const {
    const std::string_view op = editor_.node(node).op_type;
    const int rank = shape.rank();
    const auto input = [&](size_t i) { return Linear(editor_.Input(node, i), depth + 1); };
    if (op == "Range") {
      const std::optional<DimExpr> start = SingleElement(editor_.Input(node, 0));
      const std::optional<DimExpr> step = SingleElement(editor_.Input(node, 2));
      if (!start || !step) return {};
      return LinearIndex{*start, {*step}};
    }
    if (op == "Cast" || op == "Identity") return input(0);
    if (op == "Unsqueeze" || op == "Squeeze" || op == "Reshape" || op == "Expand") {
      const SymbolicShape* from = editor_.ShapeOf(editor_.Input(node, 0));
      const std::optional<LinearIndex> index = input(0);
      if (!from || !index) return {};
      if (op == "Expand") return Moved(*index, BroadcastMap(from->rank(), rank), rank);
      const std::optional<std::vector<int>> map = AxisMap(*from, shape);
      return map ? std::optional(Moved(*index, *map, rank)) : std::nullopt;
    }
    if (op != "Add" && op != "Sub" && op != "Mul") return {};
    std::optional<LinearIndex> a = input(0);
    std::optional<LinearIndex> b = input(1);
    if (!a || !b) return {};
    a = Moved(*a, BroadcastMap(static_cast<int>(a->coefficients.size()), rank), rank);
    b = Moved(*b, BroadcastMap(static_cast<int>(b->coefficients.size()), rank), rank);
    if (op != "Mul") return Combined(*a, *b, op == "Add" ? 1 : -1);
    if (!IsConstantIndex(*b)) std::swap(*a, *b);
    if (!IsConstantIndex(*b)) return {};
    a->constant = a->constant * b->constant;
    for (DimExpr& coefficient : a->coefficients) coefficient = coefficient * b->constant;
    return a;
  }

  std::optional<MaskTerms> Conjunction(NodeId node, const SymbolicShape& shape, int depth) const {
    MaskTerms all;
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const ValueId input = editor_.Input(node, i);
      const SymbolicShape* from = editor_.ShapeOf(input);
      std::optional<MaskTerms> terms = Terms(input, depth + 1);
      if (!from || !terms) return {};
      Append(*terms, BroadcastMap(from->rank(), shape.rank()), shape.rank(), all);
    }
    return all;
  }

  static void Append(const MaskTerms& terms, const std::vector<int>& map, int rank, MaskTerms& to) {
    for (const LinearIndex& index : terms.not_negative) to.not_negative.push_back(Moved(index, map, rank));
    for (MaskTerms::Padding padding : terms.padding) {
      padding.batch_axis = padding.batch_axis < 0 ? -1 : map[static_cast<size_t>(padding.batch_axis)];
      padding.key_axis = padding.key_axis < 0 ? -1 : map[static_cast<size_t>(padding.key_axis)];
      to.padding.push_back(padding);
    }
  }

  // larger - smaller + offset >= 0
  std::optional<MaskTerms> Comparison(NodeId node, size_t larger, size_t smaller, int64_t offset,
                                      const SymbolicShape& shape, int depth) const {
    std::optional<LinearIndex> a = Linear(editor_.Input(node, larger), depth + 1);
    std::optional<LinearIndex> b = Linear(editor_.Input(node, smaller), depth + 1);
    if (!a || !b) return {};
    const int rank = shape.rank();
    a = Moved(*a, BroadcastMap(static_cast<int>(a->coefficients.size()), rank), rank);
    b = Moved(*b, BroadcastMap(static_cast<int>(b->coefficients.size()), rank), rank);
    LinearIndex difference = Combined(*a, *b, -1);
    difference.constant = difference.constant + DimExpr(offset);
    MaskTerms terms;
    terms.not_negative.push_back(std::move(difference));
    return terms;
  }

  std::optional<MaskTerms> Reshaped(NodeId node, const SymbolicShape& shape, int depth) const {
    const ValueId input = editor_.Input(node, 0);
    const SymbolicShape* from = editor_.ShapeOf(input);
    if (!from) return {};
    const bool expands = editor_.node(node).op_type == "Expand";
    std::optional<std::vector<int>> map =
        expands ? BroadcastMap(from->rank(), shape.rank()) : AxisMap(*from, shape);
    if (!map) {
      // A flattened tensor that is given its former axes again.
      const NodeId inner = editor_.Producer(input);
      if (!editor_.Is(inner, "Reshape") && !editor_.Is(inner, "Flatten")) return {};
      const ValueId source = editor_.Input(inner, 0);
      const SymbolicShape* source_shape = editor_.ShapeOf(source);
      map = source_shape ? AxisMap(*source_shape, shape) : std::nullopt;
      if (!map) return {};
      const std::optional<MaskTerms> terms = Terms(source, depth + 1);
      if (!terms) return {};
      MaskTerms moved;
      Append(*terms, *map, shape.rank(), moved);
      return moved;
    }
    const std::optional<MaskTerms> terms = Terms(input, depth + 1);
    if (!terms) return {};
    MaskTerms moved;
    Append(*terms, *map, shape.rank(), moved);
    return moved;
  }

  // A mask [batch, keys] that was made a bool.
  std::optional<MaskTerms> PaddingOf(ValueId value) const {
    ValueId mask = value;
    if (const NodeId cast = editor_.Producer(mask); editor_.Is(cast, "Cast")) mask = editor_.Input(cast, 0);
    const SymbolicShape* shape = editor_.ShapeOf(mask);
    const DataType type = editor_.Type(mask);
    if (!shape || shape->rank() != 2 || (!IsInteger(type) && type != DataType::kBool)) return {};
    MaskTerms terms;
    terms.padding.push_back({mask, 0, 1});
    return terms;
  }

  // Of a tensor's axes, the one whose index is `index` itself; -1 where it is none.
  static int AxisOf(const LinearIndex& index) {
    int axis = -1;
    if (!index.constant.Is(0)) return -1;
    for (size_t i = 0; i < index.coefficients.size(); ++i) {
      if (index.coefficients[i].Is(0)) continue;
      if (axis >= 0 || !index.coefficients[i].Is(1)) return -1;
      axis = static_cast<int>(i);
    }
    return axis;
  }

  // flat[batch_index * keys + key_index] with flat the mask as one axis
  std::optional<MaskTerms> Gathered(NodeId node, const SymbolicShape& shape, int depth) const {
    const NodeId flat = editor_.Producer(editor_.Input(node, 0));
    if (editor_.Int(node, "axis", 0) != 0 || !flat.valid() ||
        (!editor_.Is(flat, "Flatten") && !editor_.Is(flat, "Reshape"))) {
      return {};
    }
    const SymbolicShape* flat_shape = editor_.ShapeOf(editor_.Output(flat));
    const SymbolicShape* mask_shape = editor_.ShapeOf(editor_.Input(flat, 0));
    std::optional<MaskTerms> terms = PaddingOf(editor_.Input(flat, 0));
    const std::optional<LinearIndex> index = Linear(editor_.Input(node, 1), depth + 1);
    if (!terms || !index || !flat_shape || !mask_shape) return {};
    const DimExpr keys = mask_shape->dims[1];
    const bool is_flat = flat_shape->dims[0] == mask_shape->dims[0] * keys &&
                         (flat_shape->rank() == 1 || (flat_shape->rank() == 2 && flat_shape->dims[1].Is(1)));
    if (!is_flat || !index->constant.Is(0)) return {};
    MaskTerms::Padding& padding = terms->padding[0];
    padding.batch_axis = padding.key_axis = -1;
    for (size_t i = 0; i < index->coefficients.size(); ++i) {
      const DimExpr& coefficient = index->coefficients[i];
      if (coefficient.Is(0)) continue;
      int& axis = coefficient.Is(1) ? padding.key_axis : padding.batch_axis;
      if (axis >= 0 || (!coefficient.Is(1) && !(coefficient == keys))) return {};
      axis = static_cast<int>(i);
    }
    return Covers(padding, *mask_shape, shape) ? terms : std::nullopt;
  }

  // mask[indices[.., 0], indices[.., 1]]
  std::optional<MaskTerms> GatheredNd(NodeId node, int depth) const {
    std::optional<MaskTerms> terms = PaddingOf(editor_.Input(node, 0));
    const NodeId concat = editor_.Producer(editor_.Input(node, 1));
    const SymbolicShape* mask_shape = editor_.ShapeOf(editor_.Input(node, 0));
    const SymbolicShape* shape = editor_.ShapeOf(editor_.Output(node));
    if (!terms || !mask_shape || !shape || editor_.Int(node, "batch_dims", 0) != 0 ||
        !editor_.Is(concat, "Concat") || editor_.node(concat).inputs.size() != 2) {
      return {};
    }
    const SymbolicShape* indices = editor_.ShapeOf(editor_.Output(concat));
    const int64_t axis = editor_.Int(concat, "axis", 0);
    if (!indices || (axis != -1 && axis != indices->rank() - 1) || !indices->dims.back().Is(2)) return {};
    const std::optional<LinearIndex> row = Linear(editor_.Input(concat, 0), depth + 1);
    const std::optional<LinearIndex> key = Linear(editor_.Input(concat, 1), depth + 1);
    if (!row || !key) return {};
    MaskTerms::Padding& padding = terms->padding[0];
    padding.batch_axis = AxisOf(*row);
    padding.key_axis = AxisOf(*key);
    return Covers(padding, *mask_shape, *shape) ? terms : std::nullopt;
  }

  // Whether every element of the mask is read in its place.
  static bool Covers(const MaskTerms::Padding& padding, const SymbolicShape& mask,
                     const SymbolicShape& shape) {
    return padding.batch_axis >= 0 && padding.key_axis >= 0 && padding.batch_axis < shape.rank() &&
           padding.key_axis < shape.rank() &&
           shape.dims[static_cast<size_t>(padding.batch_axis)] == mask.dims[0] &&
           shape.dims[static_cast<size_t>(padding.key_axis)] == mask.dims[1];
  }

  const GraphEditor& editor_;
};

}  // namespace

std::optional<LinearIndex> LinearIndexOf(const GraphEditor& editor, ValueId value) {
  return Analysis(editor).Linear(value, 0);
}

std::optional<MaskTerms> MaskTermsOf(const GraphEditor& editor, ValueId value) {
  return Analysis(editor).Terms(value, 0);
}

std::optional<CausalMaskForm> CausalMaskOf(const GraphEditor& editor, ValueId value) {
  constexpr size_t kBatch = 0, kHeads = 1, kQuery = 2, kKey = 3;
  const SymbolicShape* shape = editor.ShapeOf(value);
  if (!shape || shape->rank() != 4 || !shape->dims[kHeads].Is(1)) return {};
  const std::optional<MaskTerms> terms = MaskTermsOf(editor, value);
  if (!terms || terms->padding.size() != 1) return {};
  const MaskTerms::Padding& padding = terms->padding[0];
  const SymbolicShape* mask = editor.ShapeOf(padding.mask);
  if (padding.batch_axis != kBatch || padding.key_axis != kKey || !mask ||
      !(mask->dims[0] == shape->dims[kBatch]) || !(mask->dims[1] == shape->dims[kKey])) {
    return {};
  }
  const DimExpr past = shape->dims[kKey] - shape->dims[kQuery];
  CausalMaskForm form{padding.mask, 0};
  bool is_causal = false;
  for (const LinearIndex& index : terms->not_negative) {
    const std::vector<DimExpr>& by = index.coefficients;
    if (!by[kBatch].Is(0) || !by[kHeads].Is(0)) return {};
    const bool looks_back = by[kQuery].Is(1) && by[kKey].Is(-1);   // query - key + c >= 0
    const bool looks_ahead = by[kQuery].Is(-1) && by[kKey].Is(1);  // key - query + c >= 0
    if (looks_back && index.constant == past && !is_causal) {
      is_causal = true;
    } else if (looks_ahead && form.window == 0) {
      // key >= position - (window - 1)
      const std::optional<int64_t> window = (index.constant + past + DimExpr(1)).constant();
      if (!window || *window <= 0) return {};
      form.window = *window;
    } else {
      return {};
    }
  }
  if (!is_causal) return {};
  return form;
}

}  // namespace lamina
