// Convolution and pooling.
#include <algorithm>

#include "model/shape_inference/shape_helpers.h"
#include "model/shape_inference/sliding_window.h"

namespace lamina {
namespace {

constexpr int kNonSpatialAxes = 2;  // batch and channels

Result<std::vector<int64_t>> SpatialList(InferenceContext& context, std::string_view name, size_t size,
                                         int64_t default_value, int64_t lowest) {
  const std::vector<int64_t>* values = context.Ints(name);
  if (values == nullptr) return std::vector<int64_t>(size, default_value);
  if (values->size() != size) {
    return context.Error("attribute '{}' has {} values, expected {}", name, values->size(), size);
  }
  for (const int64_t value : *values) {
    if (value < lowest || value > std::numeric_limits<int32_t>::max()) {
      return context.Error("attribute '{}' contains {}", name, value);
    }
  }
  return *values;
}

Result<AutoPad> ReadAutoPad(InferenceContext& context) {
  const std::string_view name = context.String("auto_pad", "NOTSET");
  if (name == "NOTSET" || name.empty()) return AutoPad::kNotSet;
  if (name == "SAME_UPPER") return AutoPad::kSameUpper;
  if (name == "SAME_LOWER") return AutoPad::kSameLower;
  if (name == "VALID") return AutoPad::kValid;
  return context.Error("auto_pad is '{}'", name);
}

bool IsSame(AutoPad pad) { return pad == AutoPad::kSameUpper || pad == AutoPad::kSameLower; }

Status InferConv(InferenceContext& context) { return InferConvOf(context, 0, 1); }
Status InferQLinearConv(InferenceContext& context) { return InferConvOf(context, 0, 3); }

Status InferConvTranspose(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, kNonSpatialAxes + 1, Shape::kMaxRank));
  const SymbolicShape* x = context.InputShape(0);
  const SymbolicShape* w = context.InputShape(1);
  if (x == nullptr || w == nullptr) return {};
  LAMINA_RETURN_IF_ERROR(context.CheckRank(1, x->rank()));
  LAMINA_RETURN_IF_ERROR(context.Unify(x->dims[1], w->dims[0], "the channels").status());
  LAMINA_ASSIGN_OR_RETURN(
      const SlidingWindow window,
      ReadSlidingWindow(context, x->rank() - kNonSpatialAxes,
                        std::vector<DimExpr>(w->dims.begin() + kNonSpatialAxes, w->dims.end())));
  const size_t spatial_rank = window.kernel.size();
  LAMINA_ASSIGN_OR_RETURN(const std::vector<int64_t> output_padding,
                          SpatialList(context, "output_padding", spatial_rank, 0, 0));
  SymbolicShape result{{x->dims[0], w->dims[1] * context.Int("group", 1)}};
  const std::vector<int64_t>* output_shape = context.Ints("output_shape");
  for (size_t i = 0; i < spatial_rank; ++i) {
    const DimExpr& length = x->dims[i + kNonSpatialAxes];
    if (output_shape != nullptr) {
      // With or without the batch and channels in front.
      if (output_shape->size() < spatial_rank) {
        return context.Error("output_shape has {} values, expected {}", output_shape->size(), spatial_rank);
      }
      result.dims.emplace_back((*output_shape)[output_shape->size() - spatial_rank + i]);
    } else if (IsSame(window.auto_pad)) {
      result.dims.push_back(length * window.strides[i]);
    } else {
      result.dims.push_back((length - 1) * window.strides[i] + window.Extent(i) + output_padding[i] -
                            window.pads_begin[i] - window.pads_end[i]);
    }
  }
  context.SetOutputShape(0, std::move(result));
  return {};
}

Status InferPoolOperator(InferenceContext& context) { return InferPool(context, false); }

Status InferGlobalPool(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, kNonSpatialAxes, Shape::kMaxRank));
  const SymbolicShape* x = context.InputShape(0);
  if (x == nullptr) return {};
  SymbolicShape result = *x;
  std::fill(result.dims.begin() + kNonSpatialAxes, result.dims.end(), DimExpr(1));
  context.SetOutputShape(0, std::move(result));
  return {};
}

Status InferMaxUnpool(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, kNonSpatialAxes + 1, Shape::kMaxRank));
  context.Require("kernel_shape");
  const SymbolicShape* x = context.InputShape(0);
  if (x == nullptr) return {};
  if (context.HasInput(2)) {
    const std::vector<DimExpr>* output_shape = context.InputElements(2);
    context.SetOutputShape(0,
                           output_shape != nullptr ? SymbolicShape{*output_shape} : UnknownShape(x->rank()));
    return {};
  }
  LAMINA_ASSIGN_OR_RETURN(const SlidingWindow window,
                          ReadSlidingWindow(context, x->rank() - kNonSpatialAxes, {}));
  SymbolicShape result{{x->dims[0], x->dims[1]}};
  for (size_t i = 0; i < window.kernel.size(); ++i) {
    result.dims.push_back((x->dims[i + kNonSpatialAxes] - 1) * window.strides[i] + window.kernel[i] -
                          window.pads_begin[i] - window.pads_end[i]);
  }
  context.SetOutputShape(0, std::move(result));
  return {};
}

// Regions of interest: [rois, channels, height, width].
Status SetRoiOutput(InferenceContext& context, const DimExpr& height, const DimExpr& width) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 4));
  LAMINA_RETURN_IF_ERROR(context.CheckRank(1, 2));
  const SymbolicShape* x = context.InputShape(0);
  const SymbolicShape* rois = context.InputShape(1);
  context.SetOutputShape(0, {{rois != nullptr ? rois->dims[0] : DimExpr::Unknown(),
                              x != nullptr ? x->dims[1] : DimExpr::Unknown(), height, width}});
  return {};
}

Status InferRoiAlign(InferenceContext& context) {
  return SetRoiOutput(context, context.Int("output_height", 1), context.Int("output_width", 1));
}

Status InferMaxRoiPool(InferenceContext& context) {
  context.Require("pooled_shape");
  const std::vector<int64_t>* pooled = context.Ints("pooled_shape");
  if (pooled == nullptr || pooled->size() != 2) return context.Error("pooled_shape must have 2 values");
  return SetRoiOutput(context, (*pooled)[0], (*pooled)[1]);
}

// [batch, channels * block elements, blocks] -> [batch, channels, image...]
Status InferCol2Im(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 3));
  const SymbolicShape* x = context.InputShape(0);
  const std::vector<DimExpr>* image = context.InputElements(1);
  const std::vector<DimExpr>* block = context.InputElements(2);
  if (image == nullptr) return {};
  SymbolicShape result = UnknownShape(kNonSpatialAxes);
  if (x != nullptr) {
    result.dims[0] = x->dims[0];
    if (block != nullptr) {
      result.dims[1] = DimExpr::FloorDiv(x->dims[1], Product(*block, 0, static_cast<int>(block->size())));
    }
  }
  result.dims.insert(result.dims.end(), image->begin(), image->end());
  context.SetOutputShape(0, std::move(result));
  return {};
}

constexpr OperatorEntry kOperators[] = {
    {"AveragePool", 1, "T -> T | T=float", InferPoolOperator},
    {"Col2Im", 18, "T i64 i64 -> T", InferCol2Im},
    {"Conv", 1, "T T T? -> T | T=float", InferConv},
    {"ConvInteger", 10, "T1 T2 T1? T2? -> i32 | T1=i8,u8 T2=i8,u8", InferConv},
    {"ConvTranspose", 1, "T T T? -> T | T=float", InferConvTranspose},
    {"DeformConv", 19, "T T T T? T? -> T | T=float", InferConv},
    {"GlobalAveragePool", 1, "T -> T | T=float", InferGlobalPool},
    {"GlobalLpPool", 1, "T -> T | T=float", InferGlobalPool},
    {"GlobalMaxPool", 1, "T -> T | T=float", InferGlobalPool},
    {"LpPool", 1, "T -> T | T=float", InferPoolOperator},
    {"MaxPool", 1, "T -> T | T=float,i8,u8", InferPoolOperator},
    {"MaxPool", 8, "T -> T i64? | T=float,i8,u8", InferPoolOperator},
    {"MaxRoiPool", 1, "T T -> T | T=float", InferMaxRoiPool},
    {"MaxUnpool", 9, "T i64 i64? -> T | T=float", InferMaxUnpool},
    {"QLinearConv", 10, "T1 f32 T1 T2 f32 T2 f32 T3 i32? -> T3 | T1=i8,u8 T2=i8,u8 T3=i8,u8",
     InferQLinearConv},
    {"RoiAlign", 10, "T T i64 -> T | T=float", InferRoiAlign},
};

}  // namespace

DimExpr SlidingWindow::Extent(size_t axis) const { return (kernel[axis] - 1) * dilations[axis] + 1; }

DimExpr SlidingWindow::Positions(size_t axis, const DimExpr& length) const {
  const int64_t stride = strides[axis];
  if (IsSame(auto_pad)) return DimExpr::CeilDiv(length, stride);
  const int64_t begin = auto_pad == AutoPad::kValid ? 0 : pads_begin[axis];
  const int64_t end = auto_pad == AutoPad::kValid ? 0 : pads_end[axis];
  const DimExpr room = length + begin + end - Extent(axis);
  if (!ceil_mode) return DimExpr::FloorDiv(room, stride) + 1;
  // A window that would start in the padding at the end does not count.
  return DimExpr::Min(DimExpr::CeilDiv(room, stride) + 1, DimExpr::CeilDiv(length + begin, stride));
}

Result<SlidingWindow> ReadSlidingWindow(InferenceContext& context, int spatial_rank,
                                        std::vector<DimExpr> kernel) {
  const auto size = static_cast<size_t>(spatial_rank);
  SlidingWindow window;
  window.kernel = std::move(kernel);
  if (context.HasAttribute("kernel_shape")) {
    LAMINA_ASSIGN_OR_RETURN(const std::vector<int64_t> kernel_shape,
                            SpatialList(context, "kernel_shape", size, 1, 1));
    if (window.kernel.empty()) window.kernel.assign(kernel_shape.begin(), kernel_shape.end());
    for (size_t i = 0; i < size; ++i) {
      LAMINA_ASSIGN_OR_RETURN(window.kernel[i],
                              context.Unify(window.kernel[i], kernel_shape[i], "the kernel_shape"));
    }
  }
  if (window.kernel.size() != size) return context.Error("the attribute 'kernel_shape' is required");
  LAMINA_ASSIGN_OR_RETURN(window.strides, SpatialList(context, "strides", size, 1, 1));
  LAMINA_ASSIGN_OR_RETURN(window.dilations, SpatialList(context, "dilations", size, 1, 1));
  LAMINA_ASSIGN_OR_RETURN(const std::vector<int64_t> pads,
                          SpatialList(context, "pads", 2 * size, 0, std::numeric_limits<int32_t>::min()));
  window.pads_begin.assign(pads.begin(), pads.begin() + spatial_rank);
  window.pads_end.assign(pads.begin() + spatial_rank, pads.end());
  LAMINA_ASSIGN_OR_RETURN(window.auto_pad, ReadAutoPad(context));
  window.ceil_mode = context.Int("ceil_mode", 0) != 0;
  return window;
}

Status InferConvOf(InferenceContext& context, int x_index, int w_index) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(x_index, kNonSpatialAxes + 1, Shape::kMaxRank));
  const SymbolicShape* x = context.InputShape(x_index);
  const SymbolicShape* w = context.InputShape(w_index);
  if (x == nullptr || w == nullptr) return {};
  LAMINA_RETURN_IF_ERROR(context.CheckRank(w_index, x->rank()));
  const int64_t group = context.Int("group", 1);
  if (group < 1) return context.Error("group is {}", group);
  LAMINA_RETURN_IF_ERROR(context.Unify(x->dims[1], w->dims[1] * group, "the channels").status());
  LAMINA_ASSIGN_OR_RETURN(
      const SlidingWindow window,
      ReadSlidingWindow(context, x->rank() - kNonSpatialAxes,
                        std::vector<DimExpr>(w->dims.begin() + kNonSpatialAxes, w->dims.end())));
  SymbolicShape result{{x->dims[0], w->dims[0]}};
  for (size_t i = 0; i < window.kernel.size(); ++i) {
    result.dims.push_back(window.Positions(i, x->dims[i + kNonSpatialAxes]));
  }
  context.SetOutputShape(0, std::move(result));
  return {};
}

Status InferPool(InferenceContext& context, bool channels_last) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, kNonSpatialAxes + 1, Shape::kMaxRank));
  context.Require("kernel_shape");
  const SymbolicShape* x = context.InputShape(0);
  if (x == nullptr) return {};
  LAMINA_ASSIGN_OR_RETURN(const SlidingWindow window,
                          ReadSlidingWindow(context, x->rank() - kNonSpatialAxes, {}));
  SymbolicShape result = *x;
  for (size_t i = 0; i < window.kernel.size(); ++i) {
    DimExpr& dim = result.dims[i + (channels_last ? 1 : kNonSpatialAxes)];
    dim = window.Positions(i, dim);
  }
  for (int output = 0; output < context.num_outputs(); ++output) context.SetOutputShape(output, result);
  return {};
}

std::span<const OperatorEntry> ConvolutionOperators() { return kOperators; }

}  // namespace lamina
