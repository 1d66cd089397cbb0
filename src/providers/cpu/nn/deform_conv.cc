// DeformConv: a convolution whose taps are moved by learned offsets and weighted by a mask (2-D).
#include <cmath>

#include "providers/cpu/nn/window.h"

namespace lamina {
namespace {

template <typename T>
double Bilinear(const T* image, int64_t rows, int64_t columns, double y, double x) {
  if (!(y > -1 && y < static_cast<double>(rows) && x > -1 && x < static_cast<double>(columns))) return 0;
  const auto top = static_cast<int64_t>(std::floor(y));
  const auto left = static_cast<int64_t>(std::floor(x));
  const double fy = y - static_cast<double>(top);
  const double fx = x - static_cast<double>(left);
  const auto at = [&](int64_t row, int64_t column) {
    if (row < 0 || row >= rows || column < 0 || column >= columns) return 0.0;
    return static_cast<double>(static_cast<ComputeType<T>>(image[row * columns + column]));
  };
  return (1 - fy) * ((1 - fx) * at(top, left) + fx * at(top, left + 1)) +
         fy * ((1 - fx) * at(top + 1, left) + fx * at(top + 1, left + 1));
}

class DeformConv : public Kernel {
 public:
  explicit DeformConv(const NodeInfo& node)
      : window_(node), groups_(node.Int("group", 1)), offset_groups_(node.Int("offset_group", 1)) {}
  static Status Validate(const NodeInfo& node) {
    if (node.Int("group", 1) < 1 || node.Int("offset_group", 1) < 1)
      return InvalidModelError("groups must be positive");
    return WindowAttributes::Validate(node);
  }

  // Inputs x, weights, offsets [N, offset_groups * taps * 2, out...], bias, mask [N, offset_groups * taps,
  // out...].
  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* weights, RequireInput(context, 1));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* offsets, RequireInput(context, 2));
    const Tensor* bias = context.Input(3);
    const Tensor* mask = context.Input(4);
    const Shape& shape = x->shape();
    const Shape& w = weights->shape();
    if (shape.rank() != 4 || w.rank() != 4 || w[0] % groups_ != 0 || w[1] * groups_ != shape[1] ||
        shape[1] % offset_groups_ != 0) {
      return InvalidArgumentError("weights {} do not fit input {}", w.ToString(), shape.ToString());
    }
    LAMINA_ASSIGN_OR_RETURN(const WindowGeometry window,
                            window_.Resolve(shape.dims().subspan(2), w.dims().subspan(2)));
    const int64_t taps = window.kernel_size();
    const int64_t outputs = window.output_size();
    const int64_t tap_planes = shape[0] * offset_groups_ * taps;
    if (offsets->num_elements() != tap_planes * 2 * outputs ||
        (mask && mask->num_elements() != tap_planes * outputs) || (bias && bias->num_elements() != w[0])) {
      return InvalidArgumentError("offsets {} do not fit {} taps at {} positions",
                                  offsets->shape().ToString(), taps, outputs);
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, window.OutputShape(shape[0], w[0])));
    if (!y) return Status();
    DispatchType<float, double, Float16, Bfloat16>(x->type(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      const auto number = [](const Tensor& tensor, int64_t i) {
        return static_cast<double>(static_cast<ComputeType<T>>(tensor.data<T>()[i]));
      };
      context.threads().ParallelFor(
          shape[0] * w[0] * outputs, GrainOf(32 * w[1] * taps), [&](int64_t begin, int64_t end, int) {
            for (int64_t i = begin; i < end; ++i) {
              const int64_t position = i % outputs;
              const int64_t filter = i / outputs % w[0];
              const int64_t n = i / outputs / w[0];
              const int64_t group = filter / (w[0] / groups_);
              double sum = bias ? number(*bias, filter) : 0;
              for (int64_t c = 0; c < w[1]; ++c) {
                const int64_t channel = group * w[1] + c;
                const int64_t offset_group = channel / (shape[1] / offset_groups_);
                const T* image = x->data<T>() + (n * shape[1] + channel) * shape[2] * shape[3];
                for (int64_t tap = 0; tap < taps; ++tap) {
                  const int64_t plane = (n * offset_groups_ + offset_group) * taps + tap;
                  const int64_t row = position / window.output[1];
                  const int64_t column = position % window.output[1];
                  const double py = static_cast<double>(row * window.strides[0] - window.pads_begin[0] +
                                                        tap / window.kernel[1] * window.dilations[0]) +
                                    number(*offsets, 2 * plane * outputs + position);
                  const double px = static_cast<double>(column * window.strides[1] - window.pads_begin[1] +
                                                        tap % window.kernel[1] * window.dilations[1]) +
                                    number(*offsets, (2 * plane + 1) * outputs + position);
                  const double scale = mask ? number(*mask, plane * outputs + position) : 1;
                  sum += number(*weights, (filter * w[1] + c) * taps + tap) * scale *
                         Bilinear(image, shape[2], shape[3], py, px);
                }
              }
              y->mutable_data<T>()[i] = static_cast<T>(static_cast<ComputeType<T>>(sum));
            }
          });
    });
    return Status();
  }

 private:
  WindowAttributes window_;
  int64_t groups_;
  int64_t offset_groups_;
};

}  // namespace

void RegisterDeformConvKernels(KernelRegistry& registry) {
  registry.Add(KernelDef("DeformConv")
                   .Since(19)
                   .Input(0, kFloatTypes)
                   .Input(1, kFloatTypes)
                   .Input(2, kFloatTypes)
                   .Output(0, kFloatTypes),
               CreateKernel<DeformConv>);
}

}  // namespace lamina
