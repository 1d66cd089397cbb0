// Sliding windows over the spatial axes of [batch, channels, spatial...]: what convolutions and pools share.
#pragma once

#include <cstdint>
#include <span>

#include "providers/cpu/kernel_util.h"

namespace lamina {

// The window for one input shape. Lists have one entry for each spatial axis, outermost first.
struct WindowGeometry {
  int rank = 0;
  IntList input;
  IntList kernel;
  IntList strides;
  IntList dilations;
  IntList pads_begin;
  IntList pads_end;
  IntList output;

  int64_t input_size() const { return Product(input); }
  int64_t kernel_size() const { return Product(kernel); }
  int64_t output_size() const { return Product(output); }
  // [outer dimensions, then the output's spatial dimensions]
  Shape OutputShape(int64_t batch, int64_t channels) const;

 private:
  static int64_t Product(const IntList& list);
};

enum class AutoPad : uint8_t { kNotSet, kSameUpper, kSameLower, kValid };
Result<AutoPad> ParseAutoPad(std::string_view name);

// The attributes of a node that slides a window: kernel_shape, strides, dilations, pads, auto_pad, ceil_mode.
class WindowAttributes {
 public:
  explicit WindowAttributes(const NodeInfo& node);
  static Status Validate(const NodeInfo& node);

  const IntList& kernel_shape() const { return kernel_shape_; }
  const IntList& strides() const { return strides_; }
  const IntList& dilations() const { return dilations_; }
  const IntList& pads() const { return pads_; }
  AutoPad auto_pad() const { return auto_pad_; }

  // The geometry for spatial extents `input`. `kernel`: extents of the window (a weight's, or kernel_shape).
  Result<WindowGeometry> Resolve(std::span<const int64_t> input, std::span<const int64_t> kernel) const;

 private:
  IntList kernel_shape_;
  IntList strides_;
  IntList dilations_;
  IntList pads_;
  AutoPad auto_pad_ = AutoPad::kNotSet;
  bool ceil_mode_ = false;
};

}  // namespace lamina
