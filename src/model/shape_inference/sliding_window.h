// Windows that slide over the spatial axes of a tensor: convolution and pooling.
#pragma once

#include <cstdint>
#include <vector>

#include "model/shape_inference/inference_context.h"

namespace lamina {

enum class AutoPad { kNotSet, kSameUpper, kSameLower, kValid };

// One value per spatial axis.
struct SlidingWindow {
  std::vector<DimExpr> kernel;
  std::vector<int64_t> strides;
  std::vector<int64_t> dilations;
  std::vector<int64_t> pads_begin;
  std::vector<int64_t> pads_end;
  AutoPad auto_pad = AutoPad::kNotSet;
  bool ceil_mode = false;

  // Elements from the first to the last one of the window.
  DimExpr Extent(size_t axis) const;
  // Positions of the window over `length` elements.
  DimExpr Positions(size_t axis, const DimExpr& length) const;
};

// Reads the attributes for `spatial_rank` axes. The kernel is the attribute kernel_shape, else `kernel`.
// Errors for lists of another length, strides and dilations below 1.
Result<SlidingWindow> ReadSlidingWindow(InferenceContext& context, int spatial_rank,
                                        std::vector<DimExpr> kernel);

// A convolution of input `x` [batch, channels, spatial...] with weights `w` [filters, channels, kernel...].
Status InferConvOf(InferenceContext& context, int x, int w);

// The output [batch, channels, spatial...] of a pool, or [batch, spatial..., channels].
Status InferPool(InferenceContext& context, bool channels_last);

}  // namespace lamina
