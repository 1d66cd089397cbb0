// Operators that resample images.
#include <cmath>

#include "model/shape_inference/shape_helpers.h"

namespace lamina {
namespace {

// length * scale rounded down. Exact for whole scales; a scale such as 0.5 is a division.
DimExpr Scaled(const DimExpr& length, double scale) {
  if (scale < 0 || !(scale < 1e9)) return DimExpr::Unknown();
  if (length.is_constant()) {
    // Scales are floats: the product is computed with what they hold.
    return static_cast<int64_t>(std::floor(static_cast<double>(*length.constant()) * scale));
  }
  if (std::trunc(scale) == scale) return length * static_cast<int64_t>(scale);
  const double inverse = 1 / scale;
  if (std::trunc(inverse) == inverse) return DimExpr::FloorDiv(length, static_cast<int64_t>(inverse));
  return DimExpr::Unknown();
}

// The axes that scales and sizes are for.
Result<std::vector<int>> ResizedAxes(InferenceContext& context, int rank) {
  std::vector<int> axes;
  if (const std::vector<int64_t>* given = context.Ints("axes")) {
    for (const int64_t axis : *given) {
      LAMINA_ASSIGN_OR_RETURN(const int normal, context.Axis(axis, rank));
      axes.push_back(normal);
    }
  } else {
    for (int axis = 0; axis < rank; ++axis) axes.push_back(axis);
  }
  return axes;
}

// Sizes that keep the aspect ratio, where all is constant: one scale for all axes, sizes rounded to nearest.
SymbolicShape KeepAspectRatio(const SymbolicShape& input, const std::vector<int>& axes,
                              const std::vector<DimExpr>& sizes, bool not_larger) {
  SymbolicShape result = input;
  std::optional<double> scale;
  bool constant = true;
  for (size_t i = 0; i < axes.size(); ++i) {
    const DimExpr& dim = input.dims[static_cast<size_t>(axes[i])];
    if (!dim.is_constant() || !sizes[i].is_constant() || dim.Is(0)) {
      constant = false;
      continue;
    }
    const double ratio = static_cast<double>(*sizes[i].constant()) / static_cast<double>(*dim.constant());
    scale = !scale ? ratio : not_larger ? std::min(*scale, ratio) : std::max(*scale, ratio);
  }
  for (const int axis : axes) {
    DimExpr& dim = result.dims[static_cast<size_t>(axis)];
    dim = constant && scale
              ? DimExpr(static_cast<int64_t>(std::floor(*scale * static_cast<double>(*dim.constant()) + 0.5)))
              : DimExpr::Unknown();
  }
  return result;
}

// Resizes by scales (input `scales`) or to sizes (input `sizes`, -1: none).
Status InferResizeFrom(InferenceContext& context, int scales_index, int sizes_index) {
  const SymbolicShape* input = context.InputShape(0);
  if (input == nullptr) return {};
  LAMINA_ASSIGN_OR_RETURN(const std::vector<int> axes, ResizedAxes(context, input->rank()));
  SymbolicShape result = *input;
  for (const int axis : axes) result.dims[static_cast<size_t>(axis)] = DimExpr::Unknown();
  const auto scales = context.InputDoubles(scales_index);
  if (sizes_index >= 0 && context.HasInput(sizes_index)) {
    if (const std::vector<DimExpr>* sizes = context.InputElements(sizes_index)) {
      if (sizes->size() != axes.size()) {
        return context.Error("{} sizes are given for {} axes", sizes->size(), axes.size());
      }
      const std::string_view policy = context.String("keep_aspect_ratio_policy", "stretch");
      if (policy != "stretch") {
        result = KeepAspectRatio(*input, axes, *sizes, policy == "not_larger");
      } else {
        for (size_t i = 0; i < axes.size(); ++i) result.dims[static_cast<size_t>(axes[i])] = (*sizes)[i];
      }
    }
  } else if (scales && !scales->empty()) {
    if (scales->size() != axes.size()) {
      return context.Error("{} scales are given for {} axes", scales->size(), axes.size());
    }
    for (size_t i = 0; i < axes.size(); ++i) {
      const auto axis = static_cast<size_t>(axes[i]);
      result.dims[axis] = Scaled(input->dims[axis], (*scales)[i]);
    }
  }
  context.SetOutputShape(0, std::move(result));
  return {};
}

Status InferResize10(InferenceContext& context) { return InferResizeFrom(context, 1, -1); }
Status InferResize(InferenceContext& context) { return InferResizeFrom(context, 2, 3); }

Status InferUpsample(InferenceContext& context) {
  constexpr int kScalesInputOpset = 9;
  if (context.opset() >= kScalesInputOpset) return InferResizeFrom(context, 1, -1);
  const SymbolicShape* input = context.InputShape(0);
  std::vector<float> scales;
  if (const std::vector<float>* given = context.Floats("scales")) {
    scales = *given;
  } else {
    scales = {1, 1, context.Float("height_scale", 1), context.Float("width_scale", 1)};  // version 1
  }
  if (input == nullptr) return {};
  if (scales.size() != input->dims.size()) {
    return context.Error("{} scales are given for shape {}", scales.size(), input->ToString());
  }
  SymbolicShape result = *input;
  for (size_t i = 0; i < scales.size(); ++i) result.dims[i] = Scaled(result.dims[i], scales[i]);
  context.SetOutputShape(0, std::move(result));
  return {};
}

// X [N, C, D1..Dk], grid [N, out1..outk, k] -> [N, C, out1..outk]
Status InferGridSample(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 3, Shape::kMaxRank));
  const SymbolicShape* x = context.InputShape(0);
  const SymbolicShape* grid = context.InputShape(1);
  if (x == nullptr || grid == nullptr) return {};
  LAMINA_RETURN_IF_ERROR(context.CheckRank(1, x->rank()));
  LAMINA_RETURN_IF_ERROR(
      context.Unify(grid->dims.back(), DimExpr(x->rank() - 2), "the last axis of the grid").status());
  SymbolicShape result{{x->dims[0], x->dims[1]}};
  result.dims.insert(result.dims.end(), grid->dims.begin() + 1, grid->dims.end() - 1);
  context.SetOutputShape(0, std::move(result));
  return {};
}

// theta [N, k, k + 1], size [N, C, D1..Dk] -> [N, D1..Dk, k]
Status InferAffineGrid(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 3));
  LAMINA_RETURN_IF_ERROR(context.CheckRank(1, 1));
  const std::vector<DimExpr>* size = context.InputElements(1);
  if (size == nullptr) return {};
  if (size->size() < 4 || size->size() > 5) {
    return context.Error("input 1: expected 4 or 5 sizes, found {}", size->size());
  }
  SymbolicShape result{{(*size)[0]}};
  result.dims.insert(result.dims.end(), size->begin() + 2, size->end());
  result.dims.emplace_back(static_cast<int64_t>(size->size()) - 2);
  context.SetOutputShape(0, std::move(result));
  return {};
}

Status InferImageDecoder(InferenceContext& context) {
  LAMINA_RETURN_IF_ERROR(context.CheckRank(0, 1));
  const bool gray = context.String("pixel_format", "RGB") == "Grayscale";
  context.SetOutputShape(0, {{DimExpr::Unknown(), DimExpr::Unknown(), gray ? 1 : 3}});
  return {};
}

constexpr OperatorEntry kOperators[] = {
    {"AffineGrid", 20, "T i64 -> T | T=float", InferAffineGrid},
    {"GridSample", 16, "T G -> T | G=float", InferGridSample},
    {"ImageDecoder", 20, "u8 -> u8", InferImageDecoder},
    {"Resize", 10, "T f32 -> T", InferResize10},
    {"Resize", 11, "T R? f32? i64? -> T | R=float", InferResize},
    {"Upsample", 1, "T -> T", InferUpsample},
    {"Upsample", 9, "T f32 -> T", InferUpsample},
};

}  // namespace

std::span<const OperatorEntry> ResizeOperators() { return kOperators; }

}  // namespace lamina
