// Operators that change the shape of a tensor and keep its elements.
#include <algorithm>

#include "model/shape_inference/element_arithmetic.h"
#include "model/shape_inference/shape_helpers.h"

namespace lamina {
namespace {

// Since these opsets the axes, shape or sizes are an input, before that an attribute.
constexpr int kReshapeShapeInputOpset = 5;
constexpr int kSqueezeAxesInputOpset = 13;
constexpr int kSplitInputOpset = 13;
constexpr int kPadInputOpset = 11;

std::optional<std::vector<int64_t>> AttributeInts(InferenceContext& context, std::string_view name) {
  const std::vector<int64_t>* values = context.Ints(name);
  return values != nullptr ? std::optional(*values) : std::nullopt;
}

// A list that is an attribute before `input_opset` and input `index` since then.
std::optional<std::vector<int64_t>> IntList(InferenceContext& context, std::string_view attribute, int index,
                                            int input_opset) {
  return context.opset() >= input_opset ? context.InputInts(index) : AttributeInts(context, attribute);
}

Status InferShape(InferenceContext& context) {
  const SymbolicShape* shape = context.InputShape(0);
  if (shape == nullptr) {
    context.SetOutputShape(0, UnknownShape(1));
    return {};
  }
  const auto clamp = [rank = shape->rank()](int64_t axis) {
    return static_cast<std::ptrdiff_t>(std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank));
  };
  const auto begin = clamp(context.Int("start", 0));
  const auto end = std::max(begin, clamp(context.Int("end", shape->rank())));
  std::vector<DimExpr> dims(shape->dims.begin() + begin, shape->dims.begin() + end);
  context.SetOutputShape(0, {{static_cast<int64_t>(dims.size())}});
  context.SetOutputElements(0, std::move(dims));
  return {};
}

Status InferSize(InferenceContext& context) {
  context.SetOutputShape(0, {});
  if (const SymbolicShape* shape = context.InputShape(0)) {
    context.SetOutputElements(0, std::vector<DimExpr>{shape->num_elements()});
  }
  return {};
}

// The dimensions that the elements of a Reshape's shape input stand for.
Result<SymbolicShape> ReshapedTo(const InferenceContext& context, const std::vector<DimExpr>& target,
                                 const SymbolicShape* input, bool zero_copies) {
  constexpr int64_t kInferred = -1;
  SymbolicShape result;
  int open_axis = -1;  // the one that follows from the number of elements
  int num_inferred = 0;
  int num_unknown = 0;
  DimExpr known_product = 1;
  for (size_t i = 0; i < target.size(); ++i) {
    DimExpr dim = target[i];
    if (dim.Is(0) && zero_copies) {
      if (input != nullptr && i >= input->dims.size()) {
        return context.Error("dimension {} is to be copied from an input of shape {}", i, input->ToString());
      }
      dim = input != nullptr ? input->dims[i] : DimExpr::Unknown();
    }
    if (dim.is_constant() && *dim.constant() < 0) {
      if (!dim.Is(kInferred)) return context.Error("the shape contains {}", dim.ToString());
      if (++num_inferred > 1) return context.Error("the shape contains -1 more than once");
      dim = DimExpr::Unknown();
      open_axis = static_cast<int>(i);
    } else if (!dim.known()) {
      ++num_unknown;
      if (num_inferred == 0) open_axis = static_cast<int>(i);
    } else {
      known_product = known_product * dim;
    }
    result.dims.push_back(std::move(dim));
  }
  if (input == nullptr) return result;
  const DimExpr total = input->num_elements();
  const bool both_constant = total.is_constant() && known_product.is_constant();
  if (num_inferred + num_unknown == 1 && !known_product.Is(0)) {
    if (both_constant && !DimExpr::Mod(total, known_product).Is(0)) {
      return context.Error("{} elements of shape {} do not fit shape {}", total.ToString(), input->ToString(),
                           SymbolicShape{target}.ToString());
    }
    result.dims[static_cast<size_t>(open_axis)] = DimExpr::FloorDiv(total, known_product);
  } else if (num_inferred + num_unknown == 0 && both_constant && total != known_product) {
    return context.Error("{} elements of shape {} do not fit shape {}", total.ToString(), input->ToString(),
                         result.ToString());
  }
  return result;
}

Status InferReshape(InferenceContext& context) {
  const SymbolicShape* input = context.InputShape(0);
  context.SetOutputElements(0, context.SharedInputElements(0));
  if (context.opset() < kReshapeShapeInputOpset) {
    context.Require("shape");
    const std::vector<int64_t>* target = context.Ints("shape");
    if (target == nullptr) return {};
    LAMINA_ASSIGN_OR_RETURN(
        SymbolicShape shape,
        ReshapedTo(context, std::vector<DimExpr>(target->begin(), target->end()), input, true));
    context.SetOutputShape(0, std::move(shape));
    return {};
  }
  LAMINA_RETURN_IF_ERROR(context.CheckRank(1, 1));
  if (const std::vector<DimExpr>* target = context.InputElements(1)) {
    LAMINA_ASSIGN_OR_RETURN(SymbolicShape shape,
                            ReshapedTo(context, *target, input, context.Int("allowzero", 0) == 0));
    context.SetOutputShape(0, std::move(shape));
  } else if (const SymbolicShape* target_shape = context.InputShape(1)) {
    const std::optional<int64_t> rank = target_shape->dims[0].constant();
    if (rank && *rank <= Shape::kMaxRank) context.SetOutputShape(0, UnknownShape(static_cast<int>(*rank)));
  }
  return {};
}

Status InferFlatten(InferenceContext& context) {
  const SymbolicShape* input = context.InputShape(0);
  context.SetOutputElements(0, context.SharedInputElements(0));
  if (input == nullptr) {
    context.SetOutputShape(0, UnknownShape(2));
    return {};
  }
  LAMINA_ASSIGN_OR_RETURN(const int axis, context.Axis(context.Int("axis", 1), input->rank(), true));
  context.SetOutputShape(0, {{Product(input->dims, 0, axis), Product(input->dims, axis, input->rank())}});
  return {};
}

Status InferTranspose(InferenceContext& context) {
  const SymbolicShape* input = context.InputShape(0);
  const std::vector<int64_t>* perm = context.Ints("perm");
  if (input == nullptr) {
    if (perm != nullptr && perm->size() <= Shape::kMaxRank) {
      context.SetOutputShape(0, UnknownShape(static_cast<int>(perm->size())));
    }
    return {};
  }
  SymbolicShape result = *input;
  if (perm == nullptr) {
    std::reverse(result.dims.begin(), result.dims.end());
  } else {
    std::vector<bool> seen(input->dims.size());
    for (const int64_t axis : *perm) {
      if (axis < 0 || axis >= input->rank() || seen[static_cast<size_t>(axis)] ||
          perm->size() != input->dims.size()) {
        return context.Error("perm [{}] is not a permutation of the axes of shape {}", fmt::join(*perm, ","),
                             input->ToString());
      }
      seen[static_cast<size_t>(axis)] = true;
    }
    for (size_t i = 0; i < perm->size(); ++i) {
      result.dims[i] = input->dims[static_cast<size_t>((*perm)[i])];
    }
  }
  const std::vector<DimExpr>* elements = context.InputElements(0);
  const std::optional<Shape> shape = input->constant();
  if (elements != nullptr && shape) {
    std::vector<AxisWalk> walks;
    for (int i = 0; i < shape->rank(); ++i) {
      const int axis =
          perm == nullptr ? shape->rank() - 1 - i : static_cast<int>((*perm)[static_cast<size_t>(i)]);
      walks.push_back({static_cast<size_t>(axis), 0, 1, (*shape)[axis]});
    }
    context.SetOutputElements(0, WalkElements(*elements, *shape, walks));
  }
  context.SetOutputShape(0, std::move(result));
  return {};
}

// Which axes of a tensor of `rank` are in `axes`; an error for a repeated one.
Result<std::vector<bool>> AxisSet(const InferenceContext& context, const std::vector<int64_t>& axes,
                                  int rank) {
  std::vector<bool> set(static_cast<size_t>(rank));
  for (const int64_t given : axes) {
    LAMINA_ASSIGN_OR_RETURN(const int axis, context.Axis(given, rank));
    if (set[static_cast<size_t>(axis)]) return context.Error("axis {} is given twice", given);
    set[static_cast<size_t>(axis)] = true;
  }
  return set;
}

Status InferSqueeze(InferenceContext& context) {
  const SymbolicShape* input = context.InputShape(0);
  context.SetOutputElements(0, context.SharedInputElements(0));
  if (input == nullptr) return {};
  const bool has_axes =
      context.opset() >= kSqueezeAxesInputOpset ? context.HasInput(1) : context.HasAttribute("axes");
  const auto axes = IntList(context, "axes", 1, kSqueezeAxesInputOpset);
  SymbolicShape result;
  if (axes) {
    LAMINA_ASSIGN_OR_RETURN(const std::vector<bool> squeezed, AxisSet(context, *axes, input->rank()));
    for (size_t i = 0; i < squeezed.size(); ++i) {
      if (!squeezed[i]) {
        result.dims.push_back(input->dims[i]);
      } else if (input->dims[i].is_constant() && !input->dims[i].Is(1)) {
        return context.Error("axis {} of shape {} is not 1", i, input->ToString());
      }
    }
  } else if (has_axes) {
    // How many axes there are tells the rank.
    const SymbolicShape* axes_shape = context.InputShape(1);
    const std::optional<int64_t> count =
        axes_shape != nullptr ? axes_shape->num_elements().constant() : std::nullopt;
    if (!count || *count > input->rank()) return {};
    result = UnknownShape(input->rank() - static_cast<int>(*count));
  } else {
    for (const DimExpr& dim : input->dims) {
      if (!dim.is_constant()) return {};  // the rank depends on it
      if (!dim.Is(1)) result.dims.push_back(dim);
    }
  }
  context.SetOutputShape(0, std::move(result));
  return {};
}

Status InferUnsqueeze(InferenceContext& context) {
  if (context.opset() < kSqueezeAxesInputOpset) {
    context.Require("axes");
  } else if (!context.HasInput(1)) {
    return context.Error("input 1 is required");
  }
  const SymbolicShape* input = context.InputShape(0);
  context.SetOutputElements(0, context.SharedInputElements(0));
  const auto axes = IntList(context, "axes", 1, kSqueezeAxesInputOpset);
  if (input == nullptr || !axes) return {};
  const int rank = input->rank() + static_cast<int>(axes->size());
  LAMINA_ASSIGN_OR_RETURN(const std::vector<bool> inserted, AxisSet(context, *axes, rank));
  SymbolicShape result;
  auto next = input->dims.begin();
  for (const bool is_inserted : inserted) result.dims.push_back(is_inserted ? DimExpr(1) : *next++);
  context.SetOutputShape(0, std::move(result));
  return {};
}

Status InferExpand(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(1, 1));
  const SymbolicShape* input = context.InputShape(0);
  if (input == nullptr) return {};
  SymbolicShape target;
  if (const std::vector<DimExpr>* elements = context.InputElements(1)) {
    target.dims = *elements;
  } else if (const SymbolicShape* shape = context.InputShape(1)) {
    const std::optional<int64_t> rank = shape->dims[0].constant();
    if (!rank || *rank > Shape::kMaxRank) return {};
    target = UnknownShape(static_cast<int>(*rank));
  } else {
    return {};
  }
  LAMINA_ASSIGN_OR_RETURN(SymbolicShape result, BroadcastShapes(context, *input, target));
  const std::vector<DimExpr>* elements = context.InputElements(0);
  const std::optional<int64_t> count = result.num_elements().constant();
  if (elements != nullptr && elements->size() == 1 && count && *count >= 0 &&
      *count <= kMaxSymbolicElements) {
    context.SetOutputElements(0, std::vector<DimExpr>(static_cast<size_t>(*count), (*elements)[0]));
  }
  context.SetOutputShape(0, std::move(result));
  return {};
}

// The elements of a concatenation of vectors; those of inputs without known elements are unknown.
std::vector<DimExpr> ConcatElements(const InferenceContext& context) {
  std::vector<DimExpr> all;
  bool any_known = false;
  for (int i = 0; i < context.num_inputs(); ++i) {
    if (const std::vector<DimExpr>* elements = context.InputElements(i)) {
      all.insert(all.end(), elements->begin(), elements->end());
      any_known = true;
    } else {
      const SymbolicShape* shape = context.InputShape(i);
      const std::optional<int64_t> size = shape != nullptr ? shape->dims[0].constant() : std::nullopt;
      if (!size || *size < 0 || *size > kMaxSymbolicElements) return {};
      all.insert(all.end(), static_cast<size_t>(*size), DimExpr::Unknown());
    }
    if (static_cast<int64_t>(all.size()) > kMaxSymbolicElements) return {};
  }
  return any_known ? all : std::vector<DimExpr>();
}

Status InferConcat(InferenceContext& context) {
  constexpr int kAxisRequiredOpset = 4;
  if (context.opset() >= kAxisRequiredOpset) context.Require("axis");
  const int64_t given_axis = context.Int("axis", 1);
  std::optional<SymbolicShape> result;
  int axis = 0;
  bool length_known = true;
  for (int i = 0; i < context.num_inputs(); ++i) {
    const SymbolicShape* shape = context.InputShape(i);
    if (shape == nullptr) {
      length_known = false;
      continue;
    }
    if (!result) {
      LAMINA_ASSIGN_OR_RETURN(axis, context.Axis(given_axis, shape->rank()));
      result = *shape;
      continue;
    }
    if (shape->rank() != result->rank()) {
      return context.Error("shapes {} and {} have different ranks", result->ToString(), shape->ToString());
    }
    for (int d = 0; d < shape->rank(); ++d) {
      DimExpr& dim = result->dims[static_cast<size_t>(d)];
      const DimExpr& other = shape->dims[static_cast<size_t>(d)];
      if (d == axis) {
        dim = dim + other;
      } else {
        LAMINA_ASSIGN_OR_RETURN(dim, context.Unify(dim, other, fmt::format("axis {} of input {}", d, i)));
      }
    }
  }
  if (!result) return {};
  if (!length_known) result->dims[static_cast<size_t>(axis)] = DimExpr::Unknown();
  if (result->rank() == 1 && length_known) {
    if (std::vector<DimExpr> elements = ConcatElements(context); !elements.empty()) {
      context.SetOutputElements(0, std::move(elements));
    }
  }
  context.SetOutputShape(0, *std::move(result));
  return {};
}

// Sizes of the parts along the axis.
Result<std::vector<DimExpr>> SplitSizes(InferenceContext& context, const DimExpr& length) {
  const auto num_outputs = static_cast<size_t>(context.num_outputs());
  const bool is_input = context.opset() >= kSplitInputOpset;
  const bool has_sizes = is_input ? context.HasInput(1) : context.HasAttribute("split");
  if (has_sizes) {
    std::vector<DimExpr> sizes(num_outputs, DimExpr::Unknown());
    if (const std::vector<DimExpr>* elements = is_input ? context.InputElements(1) : nullptr) {
      sizes = *elements;
    } else if (const auto split = AttributeInts(context, "split")) {
      sizes.assign(split->begin(), split->end());
    }
    if (sizes.size() != num_outputs) {
      return context.Error("{} sizes are given for {} outputs", sizes.size(), num_outputs);
    }
    DimExpr sum = 0;
    for (const DimExpr& size : sizes) sum = sum + size;
    if (sum.is_constant() && length.is_constant() && sum != length) {
      return context.Error("sizes of {} elements are given for an axis of {}", sum.ToString(),
                           length.ToString());
    }
    return sizes;
  }
  const int64_t count = context.Int("num_outputs", static_cast<int64_t>(num_outputs));
  if (count < static_cast<int64_t>(num_outputs) || count <= 0) {
    return context.Error("num_outputs is {} where the node has {} outputs", count, num_outputs);
  }
  const DimExpr part = DimExpr::CeilDiv(length, count);
  std::vector<DimExpr> sizes(num_outputs, part);
  if (count == static_cast<int64_t>(num_outputs)) sizes.back() = length - part * (count - 1);
  return sizes;
}

Status InferSplit(InferenceContext& context) {
  const SymbolicShape* input = context.InputShape(0);
  if (input == nullptr) return {};
  LAMINA_ASSIGN_OR_RETURN(const int axis, context.Axis(context.Int("axis", 0), input->rank()));
  LAMINA_ASSIGN_OR_RETURN(const std::vector<DimExpr> sizes,
                          SplitSizes(context, input->dims[static_cast<size_t>(axis)]));
  const std::vector<DimExpr>* elements = input->rank() == 1 ? context.InputElements(0) : nullptr;
  size_t begin = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    SymbolicShape part = *input;
    part.dims[static_cast<size_t>(axis)] = sizes[i];
    context.SetOutputShape(static_cast<int>(i), std::move(part));
    const std::optional<int64_t> size = sizes[i].constant();
    if (elements == nullptr || !size || *size < 0 || begin + static_cast<size_t>(*size) > elements->size()) {
      elements = nullptr;
      continue;
    }
    const auto first = elements->begin() + static_cast<std::ptrdiff_t>(begin);
    context.SetOutputElements(static_cast<int>(i), std::vector<DimExpr>(first, first + *size));
    begin += static_cast<size_t>(*size);
  }
  return {};
}

Status InferTile(InferenceContext& context) {
  const SymbolicShape* input = context.InputShape(0);
  if (input == nullptr) return {};
  const std::vector<DimExpr>* repeats = context.InputElements(1);
  SymbolicShape result = UnknownShape(input->rank());
  constexpr int kRepeatsVectorOpset = 6;
  if (context.opset() < kRepeatsVectorOpset) {
    // Version 1 repeats one axis.
    const auto count = context.InputInts(1);
    const auto axis = context.InputInts(2);
    if (count && axis && count->size() == 1 && axis->size() == 1) {
      LAMINA_ASSIGN_OR_RETURN(const int tiled, context.Axis((*axis)[0], input->rank()));
      result = *input;
      result.dims[static_cast<size_t>(tiled)] = result.dims[static_cast<size_t>(tiled)] * (*count)[0];
    }
  } else if (repeats != nullptr) {
    if (repeats->size() != input->dims.size()) {
      return context.Error("{} repeats are given for shape {}", repeats->size(), input->ToString());
    }
    for (size_t i = 0; i < repeats->size(); ++i) result.dims[i] = input->dims[i] * (*repeats)[i];
  }
  context.SetOutputShape(0, std::move(result));
  return {};
}

Status InferPad(InferenceContext& context) {
  const SymbolicShape* input = context.InputShape(0);
  if (input == nullptr) return {};
  SymbolicShape result = UnknownShape(input->rank());
  std::optional<std::vector<DimExpr>> pads;
  if (context.opset() < kPadInputOpset) {
    const std::string_view name = context.HasAttribute("paddings") ? "paddings" : "pads";
    context.Require(name);
    if (const auto list = AttributeInts(context, name)) pads.emplace(list->begin(), list->end());
  } else if (const std::vector<DimExpr>* elements = context.InputElements(1)) {
    pads = *elements;
  }
  std::vector<int> axes;
  if (context.HasInput(3)) {
    const auto given = context.InputInts(3);
    if (!given) {
      context.SetOutputShape(0, std::move(result));
      return {};
    }
    for (const int64_t axis : *given) {
      LAMINA_ASSIGN_OR_RETURN(const int normal, context.Axis(axis, input->rank()));
      axes.push_back(normal);
    }
  } else {
    for (int axis = 0; axis < input->rank(); ++axis) axes.push_back(axis);
  }
  if (pads) {
    if (pads->size() != 2 * axes.size()) {
      return context.Error("{} pads are given for {} axes", pads->size(), axes.size());
    }
    result = *input;
    for (size_t i = 0; i < axes.size(); ++i) {
      DimExpr& dim = result.dims[static_cast<size_t>(axes[i])];
      dim = dim + (*pads)[i] + (*pads)[i + axes.size()];
    }
  }
  context.SetOutputShape(0, std::move(result));
  return {};
}

Status InferCenterCropPad(InferenceContext& context) {
  const SymbolicShape* input = context.InputShape(0);
  if (input == nullptr) return {};
  const std::vector<DimExpr>* target = context.InputElements(1);
  SymbolicShape result = *input;
  std::vector<int64_t> axes;
  if (const std::vector<int64_t>* given = context.Ints("axes")) {
    axes = *given;
  } else {
    for (int axis = 0; axis < input->rank(); ++axis) axes.push_back(axis);
  }
  if (target != nullptr && target->size() != axes.size()) {
    return context.Error("{} sizes are given for {} axes", target->size(), axes.size());
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    LAMINA_ASSIGN_OR_RETURN(const int axis, context.Axis(axes[i], input->rank()));
    result.dims[static_cast<size_t>(axis)] = target != nullptr ? (*target)[i] : DimExpr::Unknown();
  }
  context.SetOutputShape(0, std::move(result));
  return {};
}

// [N, C, H, W] -> [N, C / block^2, H * block, W * block], and back.
Status InferDepthToSpace(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 4));
  const int64_t block = context.RequiredInt("blocksize");
  if (block <= 0) return context.Error("blocksize is {}", block);
  const SymbolicShape* input = context.InputShape(0);
  if (input == nullptr) return {};
  const std::vector<DimExpr>& d = input->dims;
  context.SetOutputShape(
      0, {{d[0], DimExpr::FloorDiv(d[1], DimExpr(block) * block), d[2] * block, d[3] * block}});
  return {};
}

Status InferSpaceToDepth(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 4));
  const int64_t block = context.RequiredInt("blocksize");
  if (block <= 0) return context.Error("blocksize is {}", block);
  const SymbolicShape* input = context.InputShape(0);
  if (input == nullptr) return {};
  const std::vector<DimExpr>& d = input->dims;
  context.SetOutputShape(
      0, {{d[0], d[1] * block * block, DimExpr::FloorDiv(d[2], block), DimExpr::FloorDiv(d[3], block)}});
  return {};
}

constexpr OperatorEntry kOperators[] = {
    {"CenterCropPad", 18, "T I -> T | I=i32,i64", InferCenterCropPad},
    {"Concat", 1, "T+ -> T", InferConcat},
    {"DepthToSpace", 1, "T -> T", InferDepthToSpace},
    {"Expand", 8, "T i64 -> T", InferExpand},
    {"Flatten", 1, "T -> T", InferFlatten},
    {"Pad", 1, "T -> T", InferPad},
    {"Pad", 11, "T i64 T? -> T", InferPad},
    {"Pad", 18, "T i64 T? I? -> T | I=i32,i64", InferPad},
    {"Reshape", 1, "T -> T", InferReshape},
    {"Reshape", 5, "T i64 -> T", InferReshape},
    {"Shape", 1, "T -> i64", InferShape},
    {"Size", 1, "T -> i64", InferSize},
    {"SpaceToDepth", 1, "T -> T", InferSpaceToDepth},
    {"Split", 1, "T T? -> T+", InferSplit},
    {"Split", 2, "T -> T+", InferSplit},
    {"Split", 13, "T i64? -> T+", InferSplit},
    {"Squeeze", 1, "T -> T", InferSqueeze},
    {"Squeeze", 13, "T i64? -> T", InferSqueeze},
    {"Tile", 1, "T T T -> T", InferTile},
    {"Tile", 6, "T i64 -> T", InferTile},
    {"Transpose", 1, "T -> T", InferTranspose},
    {"Unsqueeze", 1, "T -> T", InferUnsqueeze},
    {"Unsqueeze", 13, "T i64 -> T", InferUnsqueeze},
};

}  // namespace

std::span<const OperatorEntry> ShapeOperators() { return kOperators; }

}  // namespace lamina
