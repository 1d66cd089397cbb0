// Operators that pick, place, sort or select elements.
#include <algorithm>

#include "model/shape_inference/element_arithmetic.h"
#include "model/shape_inference/shape_helpers.h"

namespace lamina {
namespace {

// Element `index`, counted from the end where negative; unknown outside.
DimExpr ElementAt(const std::vector<DimExpr>& elements, const DimExpr& index) {
  const auto size = static_cast<int64_t>(elements.size());
  if (!index.is_constant() || *index.constant() < -size || *index.constant() >= size) {
    return DimExpr::Unknown();
  }
  const int64_t i = *index.constant();
  return elements[static_cast<size_t>(i < 0 ? i + size : i)];
}

Status InferGather(InferenceContext& context) {
  const SymbolicShape* data = context.InputShape(0);
  const SymbolicShape* indices = context.InputShape(1);
  if (data == nullptr || indices == nullptr) return {};
  LAMINA_ASSIGN_OR_RETURN(const int axis, context.Axis(context.Int("axis", 0), data->rank()));
  SymbolicShape result;
  result.dims.assign(data->dims.begin(), data->dims.begin() + axis);
  result.dims.insert(result.dims.end(), indices->dims.begin(), indices->dims.end());
  result.dims.insert(result.dims.end(), data->dims.begin() + axis + 1, data->dims.end());
  context.SetOutputShape(0, std::move(result));
  if (data->rank() != 1) return {};
  const std::vector<DimExpr>* elements = context.InputElements(0);
  const std::vector<DimExpr>* positions = elements != nullptr ? context.InputElements(1) : nullptr;
  if (positions == nullptr) return {};
  std::vector<DimExpr> picked;
  for (const DimExpr& position : *positions) picked.push_back(ElementAt(*elements, position));
  context.SetOutputElements(0, std::move(picked));
  return {};
}

// The output has the shape of the indices.
Status InferGatherElements(InferenceContext& context) {
  const SymbolicShape* data = context.InputShape(0);
  const SymbolicShape* indices = context.InputShape(1);
  if (data != nullptr) {
    LAMINA_RETURN_IF_ERROR(context.Axis(context.Int("axis", 0), data->rank()).status());
    LAMINA_RETURN_IF_ERROR(context.CheckRank(1, data->rank()));
  }
  if (indices != nullptr) context.SetOutputShape(0, *indices);
  return {};
}

Status InferGatherND(InferenceContext& context) {
  const SymbolicShape* data = context.InputShape(0);
  const SymbolicShape* indices = context.InputShape(1);
  if (data == nullptr || indices == nullptr) return {};
  LAMINA_RETURN_IF_ERROR(context.CheckRank(1, 1, Shape::kMaxRank));
  const int64_t batch_dims = context.Int("batch_dims", 0);
  const std::optional<int64_t> depth = indices->dims.back().constant();
  if (!depth) return {};
  if (batch_dims < 0 || *depth < 0 || batch_dims + *depth > data->rank() || batch_dims >= indices->rank()) {
    return context.Error("indices of shape {} do not address data of shape {} with batch_dims {}",
                         indices->ToString(), data->ToString(), batch_dims);
  }
  SymbolicShape result;
  result.dims.assign(indices->dims.begin(), indices->dims.end() - 1);
  result.dims.insert(result.dims.end(), data->dims.begin() + batch_dims + *depth, data->dims.end());
  context.SetOutputShape(0, std::move(result));
  return {};
}

Status InferScatterElements(InferenceContext& context) {
  if (const SymbolicShape* data = context.InputShape(0)) {
    LAMINA_RETURN_IF_ERROR(context.Axis(context.Int("axis", 0), data->rank()).status());
    LAMINA_RETURN_IF_ERROR(context.CheckRank(1, data->rank()));
    LAMINA_RETURN_IF_ERROR(context.CheckRank(2, data->rank()));
  }
  return InferSameShape(context);
}

// The bounds of a slice of one axis: start and end in the order of the step.
struct SliceBounds {
  DimExpr start;
  DimExpr end;
  int64_t step = 1;
};

// Whether a start or end is certainly negative. An expression that is 0 at most counts as such: exports write
// minus a size, which is only 0 where there is nothing.
bool CountsFromEnd(const DimExpr& position) {
  const DimBounds bounds = position.Bounds({});
  return position.known() && bounds.max <= 0 && bounds.min < 0;
}

// A start or end within [0, length].
DimExpr ClampForward(const DimExpr& position, const DimExpr& length) {
  if (!position.known()) return DimExpr::Unknown();
  const DimBounds bounds = position.Bounds({});
  if (bounds.min >= 0) {
    // Exporters write a large number for the end of the axis.
    constexpr int64_t kEndOfAxis = std::numeric_limits<int32_t>::max();
    if (bounds.exact() && bounds.min >= kEndOfAxis && !length.is_constant()) return length;
    return DimExpr::Min(position, length);
  }
  if (CountsFromEnd(position)) return DimExpr::Max(length + position, 0);
  return DimExpr::Unknown();
}

// A start within [0, length - 1] or an end within [-1, length - 1], walking backwards.
DimExpr ClampBackward(const DimExpr& position, const DimExpr& length, int64_t lowest) {
  if (!position.is_constant()) return DimExpr::Unknown();
  const int64_t value = *position.constant();
  if (value < 0) {
    constexpr int64_t kBeforeAxis = std::numeric_limits<int32_t>::min();
    if (value <= kBeforeAxis && !length.is_constant()) return lowest;
    return value == -1 ? length - 1 : DimExpr::Max(length + position, lowest);
  }
  return DimExpr::Min(position, length - 1);
}

DimExpr SliceLength(const SliceBounds& bounds, const DimExpr& length) {
  if (bounds.step > 0) {
    const DimExpr end = ClampForward(bounds.end, length);
    if (end == length && CountsFromEnd(bounds.start)) {
      return DimExpr::CeilDiv(DimExpr::Min(length, DimExpr(0) - bounds.start), bounds.step);
    }
    const DimExpr start = ClampForward(bounds.start, length);
    return DimExpr::Max(0, DimExpr::CeilDiv(end - start, bounds.step));
  }
  const DimExpr start = ClampBackward(bounds.start, length, 0);
  const DimExpr end = ClampBackward(bounds.end, length, -1);
  return DimExpr::Max(0, DimExpr::CeilDiv(start - end, -bounds.step));
}

// The slices of the axes; nothing where they cannot be told.
struct SliceParameters {
  std::vector<int64_t> axes;
  std::vector<SliceBounds> bounds;
};
Result<std::optional<SliceParameters>> ReadSliceParameters(InferenceContext& context) {
  constexpr int kSliceInputsOpset = 10;
  SliceParameters parameters;
  std::vector<DimExpr> starts;
  std::vector<DimExpr> ends;
  std::optional<std::vector<int64_t>> axes;
  std::vector<int64_t> steps;
  if (context.opset() < kSliceInputsOpset) {
    context.Require("starts");
    context.Require("ends");
    if (const auto* list = context.Ints("starts")) starts.assign(list->begin(), list->end());
    if (const auto* list = context.Ints("ends")) ends.assign(list->begin(), list->end());
    if (const auto* list = context.Ints("axes")) axes = *list;
  } else {
    // How many axes are sliced, from whatever is known.
    std::optional<size_t> count;
    if (const SymbolicShape* shape = context.InputShape(1)) {
      const std::optional<int64_t> length = shape->num_elements().constant();
      if (length && *length > Shape::kMaxRank) return context.Error("{} axes are sliced", *length);
      if (length) count = static_cast<size_t>(*length);
    }
    if (context.HasInput(3)) {
      axes = context.InputInts(3);
      if (!axes) return std::optional<SliceParameters>();
      count = axes->size();
    }
    const std::vector<DimExpr>* start_elements = context.InputElements(1);
    const std::vector<DimExpr>* end_elements = context.InputElements(2);
    if (start_elements != nullptr) count = start_elements->size();
    if (end_elements != nullptr) count = end_elements->size();
    if (!count) return std::optional<SliceParameters>();
    starts = start_elements ? *start_elements : std::vector<DimExpr>(*count, DimExpr::Unknown());
    ends = end_elements ? *end_elements : std::vector<DimExpr>(*count, DimExpr::Unknown());
    if (const auto list = context.InputInts(4)) {
      steps = *list;
    } else if (context.HasInput(4)) {
      // Of an unknown step nothing follows.
      std::fill(starts.begin(), starts.end(), DimExpr::Unknown());
    }
  }
  if (!axes) {
    axes.emplace();
    for (size_t i = 0; i < starts.size(); ++i) axes->push_back(static_cast<int64_t>(i));
  }
  if (starts.size() != ends.size() || starts.size() != axes->size() ||
      (!steps.empty() && steps.size() != starts.size())) {
    return context.Error("{} starts, {} ends, {} axes and {} steps are given", starts.size(), ends.size(),
                         axes->size(), steps.size());
  }
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t step = steps.empty() ? 1 : steps[i];
    if (step == 0 || step == std::numeric_limits<int64_t>::min()) {
      return context.Error("the step of axis {} is {}", (*axes)[i], step);
    }
    parameters.bounds.push_back({starts[i], ends[i], step});
  }
  parameters.axes = *std::move(axes);
  return std::optional(std::move(parameters));
}

// The positions that a slice of `size` elements reads; nothing where its bounds are not constants.
std::optional<AxisWalk> WalkOf(const SliceBounds& slice, int64_t size) {
  if (!slice.start.is_constant() || !slice.end.is_constant()) return std::nullopt;
  const bool forward = slice.step > 0;
  const auto clamp = [size](int64_t position, int64_t low, int64_t high) {
    return std::clamp(position < 0 ? position + size : position, low, std::max(low, high));
  };
  AxisWalk walk;
  walk.step = slice.step;
  walk.start = clamp(*slice.start.constant(), 0, forward ? size : size - 1);
  const int64_t end = clamp(*slice.end.constant(), forward ? 0 : -1, forward ? size : size - 1);
  const int64_t distance = forward ? end - walk.start : walk.start - end;
  const int64_t stride = forward ? slice.step : -slice.step;
  walk.count = distance <= 0 ? 0 : (distance - 1) / stride + 1;
  return walk;
}

void SetSlicedElements(InferenceContext& context, const std::vector<int>& axes,
                       const std::vector<SliceBounds>& bounds) {
  const std::vector<DimExpr>* elements = context.InputElements(0);
  const std::optional<Shape> shape = context.InputShape(0)->constant();
  if (elements == nullptr || !shape) return;
  std::vector<AxisWalk> walks;
  for (int axis = 0; axis < shape->rank(); ++axis) {
    walks.push_back({static_cast<size_t>(axis), 0, 1, (*shape)[axis]});
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    const std::optional<AxisWalk> walk = WalkOf(bounds[i], (*shape)[axes[i]]);
    if (!walk) return;
    AxisWalk& whole = walks[static_cast<size_t>(axes[i])];
    whole = *walk;
    whole.axis = static_cast<size_t>(axes[i]);
  }
  context.SetOutputElements(0, WalkElements(*elements, *shape, walks));
}

Status InferSlice(InferenceContext& context) {
  const SymbolicShape* input = context.InputShape(0);
  LAMINA_ASSIGN_OR_RETURN(const auto parameters, ReadSliceParameters(context));
  if (input == nullptr) return {};
  if (!parameters) {
    context.SetOutputShape(0, UnknownShape(input->rank()));
    return {};
  }
  SymbolicShape result = *input;
  std::vector<int> axes;
  for (size_t i = 0; i < parameters->axes.size(); ++i) {
    LAMINA_ASSIGN_OR_RETURN(const int axis, context.Axis(parameters->axes[i], input->rank()));
    axes.push_back(axis);
    DimExpr& dim = result.dims[static_cast<size_t>(axis)];
    dim = SliceLength(parameters->bounds[i], dim);
  }
  SetSlicedElements(context, axes, parameters->bounds);
  context.SetOutputShape(0, std::move(result));
  return {};
}

Status InferTrilu(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 2, Shape::kMaxRank));
  return InferSameShape(context);
}

Status InferCumulative(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(1, 0, 1));
  return InferSameShape(context);
}

Status InferReverseSequence(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 2, Shape::kMaxRank));
  LAMINA_RETURN_IF_ERROR(context.CheckRank(1, 1));
  return InferSameShape(context);
}

Status InferTopK(InferenceContext& context) {
  constexpr int kCountInputOpset = 10;
  const SymbolicShape* input = context.InputShape(0);
  DimExpr count = DimExpr::Unknown();
  if (context.opset() < kCountInputOpset) {
    count = context.RequiredInt("k");
  } else {
    LAMINA_RETURN_IF_ERROR(context.CheckRank(1, 0, 1));
    if (const std::vector<DimExpr>* k = context.InputElements(1); k != nullptr && k->size() == 1) {
      count = (*k)[0];
    }
  }
  if (input == nullptr) return {};
  LAMINA_ASSIGN_OR_RETURN(const int axis, context.Axis(context.Int("axis", -1), input->rank()));
  SymbolicShape result = *input;
  DimExpr& dim = result.dims[static_cast<size_t>(axis)];
  if (count.is_constant() && dim.is_constant() && *count.constant() > *dim.constant()) {
    return context.Error("k is {} where axis {} has {} elements", count.ToString(), axis, dim.ToString());
  }
  dim = count;
  context.SetOutputShape(0, result);
  context.SetOutputShape(1, std::move(result));
  return {};
}

Status InferNonZero(InferenceContext& context) {
  const SymbolicShape* input = context.InputShape(0);
  // A scalar counts as a vector of one element.
  const DimExpr rank = input != nullptr ? DimExpr(std::max(input->rank(), 1)) : DimExpr::Unknown();
  context.SetOutputShape(0, {{rank, DimExpr::Unknown()}});
  return {};
}

Status InferCompress(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(1, 1));
  if (!context.HasAttribute("axis")) {
    context.SetOutputShape(0, UnknownShape(1));
    return {};
  }
  const SymbolicShape* input = context.InputShape(0);
  if (input == nullptr) return {};
  LAMINA_ASSIGN_OR_RETURN(const int axis, context.Axis(context.Int("axis", 0), input->rank()));
  SymbolicShape result = *input;
  result.dims[static_cast<size_t>(axis)] = DimExpr::Unknown();
  context.SetOutputShape(0, std::move(result));
  return {};
}

Status InferUnique(InferenceContext& context) {
  const SymbolicShape* input = context.InputShape(0);
  // How many there are is one symbol for all outputs.
  const DimExpr count = context.FreshDim(0, 0);
  DimExpr inverse = input != nullptr ? input->num_elements() : DimExpr::Unknown();
  if (!context.HasAttribute("axis")) {
    context.SetOutputShape(0, {{count}});
  } else if (input != nullptr) {
    LAMINA_ASSIGN_OR_RETURN(const int axis, context.Axis(context.Int("axis", 0), input->rank()));
    inverse = input->dims[static_cast<size_t>(axis)];
    SymbolicShape result = *input;
    result.dims[static_cast<size_t>(axis)] = count;
    context.SetOutputShape(0, std::move(result));
  }
  context.SetOutputShape(1, {{count}});
  context.SetOutputShape(2, {{inverse}});
  context.SetOutputShape(3, {{count}});
  return {};
}

Status InferOneHot(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(1, 0, 1));
  LAMINA_RETURN_IF_ERROR(context.CheckRank(2, 1));
  const SymbolicShape* indices = context.InputShape(0);
  if (indices == nullptr) return {};
  LAMINA_ASSIGN_OR_RETURN(const int axis, context.Axis(context.Int("axis", -1), indices->rank() + 1));
  const std::vector<DimExpr>* depth = context.InputElements(1);
  SymbolicShape result = *indices;
  result.dims.insert(result.dims.begin() + axis,
                     depth != nullptr && depth->size() == 1 ? (*depth)[0] : DimExpr::Unknown());
  context.SetOutputShape(0, std::move(result));
  return {};
}

Status InferTensorScatter(InferenceContext& context) {
  const SymbolicShape* past = context.InputShape(0);
  if (past != nullptr) LAMINA_RETURN_IF_ERROR(context.CheckRank(1, past->rank()));
  LAMINA_RETURN_IF_ERROR(context.CheckRank(2, 1));
  return InferSameShape(context);
}

constexpr OperatorEntry kOperators[] = {
    {"Compress", 9, "T bool -> T", InferCompress},
    {"CumProd", 26, "T I -> T | T=numeric I=i32,i64", InferCumulative},
    {"CumSum", 11, "T I -> T | T=numeric I=i32,i64", InferCumulative},
    {"Gather", 1, "T I -> T | I=i32,i64", InferGather},
    {"GatherElements", 11, "T I -> T | I=i32,i64", InferGatherElements},
    {"GatherND", 11, "T i64 -> T", InferGatherND},
    {"NonZero", 9, "T -> i64", InferNonZero},
    {"OneHot", 9, "T1 T2 T -> T | T1=numeric T2=numeric", InferOneHot},
    {"ReverseSequence", 10, "T i64 -> T", InferReverseSequence},
    {"Scatter", 9, "T I T -> T | I=i32,i64", InferScatterElements},
    {"ScatterElements", 11, "T I T -> T | I=i32,i64", InferScatterElements},
    {"ScatterND", 11, "T i64 T -> T", InferSameShape},
    {"Slice", 1, "T -> T", InferSlice},
    {"Slice", 10, "T I I I? I? -> T | I=i32,i64", InferSlice},
    {"TensorScatter", 24, "T T i64? -> T", InferTensorScatter},
    {"TopK", 1, "T -> T i64", InferTopK},
    {"TopK", 10, "T i64 -> T i64", InferTopK},
    {"Trilu", 14, "T i64? -> T", InferTrilu},
    {"Unique", 11, "T -> T i64? i64? i64?", InferUnique},
};

}  // namespace

std::span<const OperatorEntry> IndexingOperators() { return kOperators; }

}  // namespace lamina
