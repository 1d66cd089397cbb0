// com.microsoft QLinearAveragePool, QLinearGlobalAveragePool, QLinearConcat and NhwcMaxPool.
#include "providers/cpu/nn/conv_windows.h"
#include "providers/cpu/quant/quant_params.h"

namespace lamina {
namespace {

constexpr TypeSet kBytes{DataType::kInt8, DataType::kUint8};

// Axes of [N, C, spatial...] or [N, spatial..., C].
struct ImageLayout {
  bool channels_last = false;
  int64_t batch = 1;
  int64_t channels = 1;
  IntList spatial;

  static Result<ImageLayout> Of(const Shape& shape, bool channels_last) {
    if (shape.rank() < 3) return InvalidArgumentError("an image expected, found {}", shape.ToString());
    ImageLayout layout;
    layout.channels_last = channels_last;
    layout.batch = shape[0];
    layout.channels = shape[channels_last ? shape.rank() - 1 : 1];
    for (int axis = 2; axis < shape.rank(); ++axis)
      layout.spatial.Append(shape[channels_last ? axis - 1 : axis]);
    return layout;
  }
  Shape WithSpatial(const IntList& extents) const {
    Shape shape{batch};
    if (!channels_last) shape.Append(channels);
    for (const int64_t extent : extents) shape.Append(extent);
    if (channels_last) shape.Append(channels);
    return shape;
  }
  // Place of a pixel of a plane [batch * channels] with `pixels` pixels.
  int64_t Place(int64_t plane, int64_t pixel, int64_t pixels) const {
    return channels_last ? (plane / channels * pixels + pixel) * channels + plane % channels
                         : plane * pixels + pixel;
  }
};

class QLinearAveragePool : public Kernel {
 public:
  explicit QLinearAveragePool(const NodeInfo& node)
      : window_(node),
        global_(node.op_type() == "QLinearGlobalAveragePool"),
        channels_last_(node.Int("channels_last", 0) != 0),
        count_padding_(node.Int("count_include_pad", 0) != 0) {}
  static Status Validate(const NodeInfo& node) { return WindowAttributes::Validate(node); }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x_scale, RequireInput(context, 1));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* y_scale, RequireInput(context, 3));
    const int32_t x_zero = context.Input(2) ? IntAt(*context.Input(2), 0) : 0;
    const int32_t y_zero = context.Input(4) ? IntAt(*context.Input(4), 0) : 0;
    LAMINA_ASSIGN_OR_RETURN(const ImageLayout layout, ImageLayout::Of(x->shape(), channels_last_));
    LAMINA_ASSIGN_OR_RETURN(const WindowGeometry window,
                            window_.Resolve(layout.spatial.span(),
                                            global_ ? layout.spatial.span() : window_.kernel_shape().span()));
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, layout.WithSpatial(window.output)));
    if (!y) return Status();
    const double ratio = static_cast<double>(FloatAt(*x_scale, 0)) / FloatAt(*y_scale, 0);
    const int64_t outputs = window.output_size();
    const int64_t taps = window.kernel_size();
    const IntegerRange range = RangeOf(y->type());
    auto* target = static_cast<uint8_t*>(y->mutable_raw_data());
    context.threads().ParallelFor(
        layout.batch * layout.channels * outputs, GrainOf(8 * taps), [&](int64_t begin, int64_t end, int) {
          for (int64_t i = begin; i < end; ++i) {
            int64_t sum = 0;
            int64_t count = 0;
            for (int64_t tap = 0; tap < taps; ++tap) {
              const int64_t pixel = WindowTap(window, i % outputs, tap);
              if (pixel < 0) continue;
              sum += IntAt(*x, layout.Place(i / outputs, pixel, window.input_size())) - x_zero;
              ++count;
            }
            const auto divisor = static_cast<double>(std::max<int64_t>(1, count_padding_ ? taps : count));
            target[layout.Place(i / outputs, i % outputs, outputs)] = static_cast<uint8_t>(
                QuantizeToInt(static_cast<double>(sum) / divisor * ratio, y_zero, range));
          }
        });
    return Status();
  }

 private:
  WindowAttributes window_;
  bool global_;
  bool channels_last_;
  bool count_padding_;
};

class NhwcMaxPool : public Kernel {
 public:
  explicit NhwcMaxPool(const NodeInfo& node) : window_(node) {}
  static Status Validate(const NodeInfo& node) { return WindowAttributes::Validate(node); }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const ImageLayout layout, ImageLayout::Of(x->shape(), /*channels_last=*/true));
    LAMINA_ASSIGN_OR_RETURN(const WindowGeometry window,
                            window_.Resolve(layout.spatial.span(), window_.kernel_shape().span()));
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, layout.WithSpatial(window.output)));
    if (!y) return Status();
    const int64_t outputs = window.output_size();
    const int64_t taps = window.kernel_size();
    auto* target = static_cast<uint8_t*>(y->mutable_raw_data());
    const auto lowest = static_cast<int32_t>(RangeOf(x->type()).low);
    context.threads().ParallelFor(
        layout.batch * layout.channels * outputs, GrainOf(8 * taps), [&](int64_t begin, int64_t end, int) {
          for (int64_t i = begin; i < end; ++i) {
            int32_t best = lowest;
            for (int64_t tap = 0; tap < taps; ++tap) {
              const int64_t pixel = WindowTap(window, i % outputs, tap);
              if (pixel >= 0)
                best = std::max(best, IntAt(*x, layout.Place(i / outputs, pixel, window.input_size())));
            }
            target[layout.Place(i / outputs, i % outputs, outputs)] = static_cast<uint8_t>(best);
          }
        });
    return Status();
  }

 private:
  WindowAttributes window_;
};

// Inputs y_scale, y_zero_point, then tensor, scale and zero point of each part.
class QLinearConcat : public Kernel {
 public:
  explicit QLinearConcat(const NodeInfo& node) : axis_(node.Int("axis", 0)) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* y_scale, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* y_zero, RequireInput(context, 1));
    const int parts = (context.num_inputs() - 2) / 3;
    if (parts < 1) return InvalidArgumentError("nothing to join");
    LAMINA_ASSIGN_OR_RETURN(const Tensor* first, RequireInput(context, 2));
    Shape shape = first->shape();
    LAMINA_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, shape.rank()));
    shape[axis] = 0;
    for (int part = 0; part < parts; ++part) {
      for (int i = 0; i < 3; ++i) LAMINA_RETURN_IF_ERROR(RequireInput(context, 2 + 3 * part + i).status());
      const Tensor* x = context.Input(2 + 3 * part);
      Shape same = x->shape();
      if (same.rank() == shape.rank()) {
        shape[axis] += same[axis];
        same[axis] = shape[axis];
      }
      if (!(same == shape) || !kBytes.Contains(x->type())) {
        return InvalidArgumentError("part {} of shape {} does not fit", part, x->shape().ToString());
      }
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, shape));
    if (!y) return Status();
    const int64_t inner = shape.num_elements(axis + 1, shape.rank());
    const IntegerRange range = RangeOf(y->type());
    auto* target = static_cast<uint8_t*>(y->mutable_raw_data());
    int64_t offset = 0;
    for (int part = 0; part < parts; ++part) {
      const Tensor& x = *context.Input(2 + 3 * part);
      const double ratio =
          static_cast<double>(FloatAt(*context.Input(3 + 3 * part), 0)) / FloatAt(*y_scale, 0);
      const int32_t zero = IntAt(*context.Input(4 + 3 * part), 0);
      const int64_t block = x.shape()[axis] * inner;
      for (int64_t i = 0; i < x.num_elements(); ++i) {
        target[i / block * shape[axis] * inner + offset + i % block] =
            static_cast<uint8_t>(QuantizeToInt((IntAt(x, i) - zero) * ratio, IntAt(*y_zero, 0), range));
      }
      offset += block;
    }
    return Status();
  }

 private:
  int64_t axis_;
};

}  // namespace

void RegisterQLinearPoolKernels(KernelRegistry& registry) {
  for (const char* name : {"QLinearAveragePool", "QLinearGlobalAveragePool"}) {
    registry.Add(KernelDef(name, kMsDomain).Input(0, kBytes).Output(0, kBytes),
                 CreateKernel<QLinearAveragePool>);
  }
  registry.Add(KernelDef("NhwcMaxPool", kMsDomain).Input(0, kBytes).Output(0, kBytes),
               CreateKernel<NhwcMaxPool>);
  registry.Add(KernelDef("QLinearConcat", kMsDomain).Input(2, kBytes).Output(0, kBytes),
               CreateKernel<QLinearConcat>);
}

}  // namespace lamina
