#include "providers/cpu/nn/window.h"

namespace lamina {
namespace {

// Input elements from the first to the last tap of the window.
int64_t Reach(int64_t kernel, int64_t dilation) { return dilation * (kernel - 1) + 1; }

IntList OrDefault(const IntList& list, int rank, int64_t value) {
  return list.empty() ? IntList(rank, value) : list;
}

}  // namespace

int64_t WindowGeometry::Product(const IntList& list) {
  int64_t product = 1;
  for (const int64_t extent : list) product *= extent;
  return product;
}

Shape WindowGeometry::OutputShape(int64_t batch, int64_t channels) const {
  Shape shape{batch, channels};
  for (const int64_t extent : output) shape.Append(extent);
  return shape;
}

Result<AutoPad> ParseAutoPad(std::string_view name) {
  if (name == "NOTSET" || name.empty()) return AutoPad::kNotSet;
  if (name == "SAME_UPPER") return AutoPad::kSameUpper;
  if (name == "SAME_LOWER") return AutoPad::kSameLower;
  if (name == "VALID") return AutoPad::kValid;
  return InvalidModelError("unknown auto_pad '{}'", name);
}

Status WindowAttributes::Validate(const NodeInfo& node) {
  LAMINA_RETURN_IF_ERROR(ParseAutoPad(node.String("auto_pad", "NOTSET")).status());
  for (const char* name :
       {"kernel_shape", "strides", "dilations", "pads", "output_padding", "output_shape"}) {
    LAMINA_RETURN_IF_ERROR(IntsAttribute(node, name).status());
  }
  for (const char* name : {"kernel_shape", "strides", "dilations"}) {
    for (const int64_t value : node.Ints(name)) {
      if (value < 1) return InvalidModelError("{} has a value of {}", name, value);
    }
  }
  return Status();
}

WindowAttributes::WindowAttributes(const NodeInfo& node)
    : kernel_shape_(node.Ints("kernel_shape")),
      strides_(node.Ints("strides")),
      dilations_(node.Ints("dilations")),
      pads_(node.Ints("pads")),
      auto_pad_(*ParseAutoPad(node.String("auto_pad", "NOTSET"))),
      ceil_mode_(node.Int("ceil_mode", 0) != 0) {}

Result<WindowGeometry> WindowAttributes::Resolve(std::span<const int64_t> input,
                                                 std::span<const int64_t> kernel) const {
  WindowGeometry window;
  window.rank = static_cast<int>(input.size());
  if (kernel.size() != input.size()) {
    return InvalidArgumentError("a window of {} axes for an input with {} spatial axes", kernel.size(),
                                input.size());
  }
  window.input = IntList(input);
  window.kernel = IntList(kernel);
  window.strides = OrDefault(strides_, window.rank, 1);
  window.dilations = OrDefault(dilations_, window.rank, 1);
  IntList pads = OrDefault(pads_, 2 * window.rank, 0);
  if (window.strides.size() != window.rank || window.dilations.size() != window.rank ||
      pads.size() != 2 * window.rank) {
    return InvalidArgumentError("strides, dilations and pads have {}, {} and {} values for {} spatial axes",
                                window.strides.size(), window.dilations.size(), pads.size(), window.rank);
  }
  for (int axis = 0; axis < window.rank; ++axis) {
    const int64_t extent = input[static_cast<size_t>(axis)];
    const int64_t stride = window.strides[axis];
    const int64_t reach = Reach(window.kernel[axis], window.dilations[axis]);
    int64_t before = pads[axis];
    int64_t after = pads[window.rank + axis];
    int64_t output = 0;
    if (auto_pad_ == AutoPad::kSameUpper || auto_pad_ == AutoPad::kSameLower) {
      output = (extent + stride - 1) / stride;
      const int64_t total = std::max<int64_t>(0, (output - 1) * stride + reach - extent);
      before = auto_pad_ == AutoPad::kSameUpper ? total / 2 : total - total / 2;
      after = total - before;
    } else {
      if (auto_pad_ == AutoPad::kValid) before = after = 0;
      const int64_t slack = extent + before + after - reach;
      if (slack < 0) {
        return InvalidArgumentError("a window of {} does not fit an axis of {} padded by {} and {}", reach,
                                    extent, before, after);
      }
      output = (ceil_mode_ ? slack + stride - 1 : slack) / stride + 1;
      // A window must begin inside the input or the padding before it.
      if (ceil_mode_ && (output - 1) * stride >= extent + before) --output;
    }
    window.pads_begin.Append(before);
    window.pads_end.Append(after);
    window.output.Append(output);
  }
  return window;
}

}  // namespace lamina
