// ConvTranspose: every input element adds its multiple of the kernel to the output. fp32 goes the way of
// conv_transpose_product.h; other types are computed plane by plane of the output, so that threads never
// write to one element.
#include "providers/cpu/nn/conv_transpose_product.h"
#include "providers/cpu/nn/window.h"
#include "providers/cpu/simd/vec_math.h"
#include "providers/cpu/workspace_bounds.h"

namespace lamina {
namespace {

constexpr int kSums = 0;  // scratch slot: the output in float, where its type is narrower

bool IsHalfType(DataType type) { return type == DataType::kFloat16 || type == DataType::kBfloat16; }

// sums [output...] += every element of x [input...] times the kernel.
template <typename T, typename C>
void AccumulatePlane(const WindowGeometry& window, const T* x, const T* weights, C* sums) {
  const int last = window.rank - 1;
  const int64_t in_width = window.input[last];
  const int64_t out_width = window.output[last];
  const int64_t lines = window.input_size() / in_width;
  const int64_t taps_x = window.kernel[last];
  const int64_t outer_taps = window.kernel_size() / taps_x;
  const int64_t stride = window.strides[last];
  for (int64_t line = 0; line < lines; ++line) {
    for (int64_t outer_tap = 0; outer_tap < outer_taps; ++outer_tap) {
      int64_t out_line = 0;
      int64_t line_stride = 1;
      int64_t rest = line;
      int64_t tap = outer_tap;
      bool inside = true;
      for (int axis = last - 1; axis >= 0; --axis) {
        const int64_t place = rest % window.input[axis] * window.strides[axis] - window.pads_begin[axis] +
                              tap % window.kernel[axis] * window.dilations[axis];
        rest /= window.input[axis];
        tap /= window.kernel[axis];
        inside &= place >= 0 && place < window.output[axis];
        out_line += place * line_stride;
        line_stride *= window.output[axis];
      }
      if (!inside) continue;
      const T* source = x + line * in_width;
      C* target = sums + out_line * out_width;
      for (int64_t tap_x = 0; tap_x < taps_x; ++tap_x) {
        const C weight = static_cast<C>(weights[outer_tap * taps_x + tap_x]);
        const int64_t first = tap_x * window.dilations[last] - window.pads_begin[last];
        // Input columns whose target lies inside the line.
        const int64_t begin =
            std::clamp<int64_t>(first >= 0 ? 0 : (-first + stride - 1) / stride, 0, in_width);
        const int64_t end = std::clamp<int64_t>(
            first >= out_width ? 0 : (out_width - first + stride - 1) / stride, begin, in_width);
        if (stride == 1) {
          for (int64_t i = begin; i < end; ++i) target[first + i] += weight * static_cast<C>(source[i]);
        } else {
          for (int64_t i = begin; i < end; ++i)
            target[first + i * stride] += weight * static_cast<C>(source[i]);
        }
      }
    }
  }
}

class ConvTranspose : public Kernel {
 public:
  explicit ConvTranspose(const NodeInfo& node)
      : window_(node),
        groups_(node.Int("group", 1)),
        output_padding_(node.Ints("output_padding")),
        output_shape_(node.Ints("output_shape")) {}
  static Status Validate(const NodeInfo& node) {
    if (node.Int("group", 1) < 1) return InvalidModelError("group must be positive");
    return WindowAttributes::Validate(node);
  }
  Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                      WorkspaceRequirements& requirements) const override {
    return Workspace(node, requirements);
  }
  static Status Workspace(const NodeInfo& node, WorkspaceRequirements& requirements) {
    if (!IsHalfType(node.input_type(0).element)) return Status();
    LAMINA_ASSIGN_OR_RETURN(const int64_t elements, LargestOutputElements(node, 0));
    return requirements.Add(kSums, static_cast<size_t>(elements) * sizeof(float));
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* weights, RequireInput(context, 1));
    const Tensor* bias = context.Input(2);
    const Shape& shape = x->shape();
    const Shape& weight_shape = weights->shape();  // [channels, filters / groups, kernel...]
    if (shape.rank() < 3 || weight_shape.rank() != shape.rank() || weight_shape[0] != shape[1] ||
        shape[1] % groups_ != 0 || weights->type() != x->type()) {
      return InvalidArgumentError("weights {} with {} groups do not fit input {}", weight_shape.ToString(),
                                  groups_, shape.ToString());
    }
    const int64_t filters = weight_shape[1] * groups_;
    if (bias && (bias->num_elements() != filters || bias->type() != x->type())) {
      return InvalidArgumentError("bias {} does not fit {} filters", bias->shape().ToString(), filters);
    }
    LAMINA_ASSIGN_OR_RETURN(const WindowGeometry window, Geometry(shape, weight_shape));
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, window.OutputShape(shape[0], filters)));
    if (!y || y->num_elements() == 0) return Status();
    if (IsHalfType(x->type())) {
      LAMINA_ASSIGN_OR_RETURN(float* sums, GetScratch<float>(context, kSums, y->num_elements()));
      if (x->type() == DataType::kFloat16) {
        Run<Float16>(context.threads(), window, *x, *weights, bias, filters, sums);
      } else {
        Run<Bfloat16>(context.threads(), window, *x, *weights, bias, filters, sums);
      }
      ConvertFromFloat(y->type(), sums, y->mutable_raw_data(), y->num_elements());
    } else if (x->type() == DataType::kFloat && x->num_elements() > 0) {
      ConvTransposeCall call;
      call.x = x->data<float>();
      call.weights = weights->data<float>();
      call.bias = bias ? bias->data<float>() : nullptr;
      call.y = y->mutable_data<float>();
      call.batch = shape[0];
      call.groups = groups_;
      call.channels = shape[1] / groups_;
      call.filters = weight_shape[1];
      call.window = window;
      ConvTransposeAsProduct(context.threads(), call);
    } else if (x->type() == DataType::kFloat) {
      Run<float>(context.threads(), window, *x, *weights, bias, filters, y->mutable_data<float>());
    } else {
      Run<double>(context.threads(), window, *x, *weights, bias, filters, y->mutable_data<double>());
    }
    return Status();
  }

 private:
  template <typename T, typename C>
  void Run(ThreadPool& threads, const WindowGeometry& window, const Tensor& x, const Tensor& weights,
           const Tensor* bias, int64_t filters, C* sums) const {
    const int64_t channels = x.shape()[1] / groups_;
    const int64_t group_filters = filters / groups_;
    const int64_t inputs = window.input_size();
    const int64_t outputs = window.output_size();
    const int64_t kernel = window.kernel_size();
    threads.ParallelFor(
        x.shape()[0] * filters, GrainOf(channels * inputs * kernel), [&](int64_t begin, int64_t end, int) {
          for (int64_t plane = begin; plane < end; ++plane) {
            const int64_t filter = plane % filters;
            const int64_t group = filter / group_filters;
            C* target = sums + plane * outputs;
            std::fill_n(target, outputs, bias ? static_cast<C>(bias->data<T>()[filter]) : C(0));
            for (int64_t c = 0; c < channels; ++c) {
              const int64_t channel = group * channels + c;
              AccumulatePlane<T, C>(
                  window, x.data<T>() + (plane / filters * x.shape()[1] + channel) * inputs,
                  weights.data<T>() + (channel * group_filters + filter % group_filters) * kernel, target);
            }
          }
        });
  }

  // Here the window slides over the output: `output` are its extents, `pads_begin` what is cut off before it.
  Result<WindowGeometry> Geometry(const Shape& shape, const Shape& weight_shape) const {
    WindowGeometry window;
    window.rank = shape.rank() - 2;
    const int rank = window.rank;
    window.input = IntList(shape.dims().subspan(2));
    window.kernel = IntList(weight_shape.dims().subspan(2));
    window.strides = window_.strides().empty() ? IntList(rank, 1) : window_.strides();
    window.dilations = window_.dilations().empty() ? IntList(rank, 1) : window_.dilations();
    const IntList pads = window_.pads().empty() ? IntList(2 * rank, 0) : window_.pads();
    const IntList extra = output_padding_.empty() ? IntList(rank, 0) : output_padding_;
    // Some exporters give the whole output shape.
    const int skipped = output_shape_.size() == rank + 2 ? 2 : 0;
    if (window.strides.size() != rank || window.dilations.size() != rank || pads.size() != 2 * rank ||
        extra.size() != rank || (!output_shape_.empty() && output_shape_.size() != rank + skipped)) {
      return InvalidArgumentError("the attributes do not fit {} spatial axes", rank);
    }
    for (int axis = 0; axis < rank; ++axis) {
      const int64_t whole = window.strides[axis] * (window.input[axis] - 1) + extra[axis] +
                            (window.kernel[axis] - 1) * window.dilations[axis] + 1;
      int64_t before = pads[axis];
      int64_t output = whole - pads[axis] - pads[rank + axis];
      const bool same =
          window_.auto_pad() == AutoPad::kSameUpper || window_.auto_pad() == AutoPad::kSameLower;
      if (!output_shape_.empty() || same) {
        output = same && output_shape_.empty() ? window.input[axis] * window.strides[axis]
                                               : output_shape_[axis + skipped];
        const int64_t total = std::max<int64_t>(0, whole - output);
        before = window_.auto_pad() == AutoPad::kSameUpper ? total / 2 : total - total / 2;
      } else if (window_.auto_pad() == AutoPad::kValid) {
        before = 0;
        output = whole;
      }
      if (output < 0)
        return InvalidArgumentError("the output would have {} elements on axis {}", output, axis);
      window.pads_begin.Append(before);
      window.pads_end.Append(0);
      window.output.Append(output);
    }
    return window;
  }

  WindowAttributes window_;
  int64_t groups_;
  IntList output_padding_;
  IntList output_shape_;
};

}  // namespace

void RegisterConvTransposeKernels(KernelRegistry& registry) {
  registry.Add(KernelDef("ConvTranspose").Input(0, kFloatTypes).Input(1, kFloatTypes).Output(0, kFloatTypes),
               CreateKernel<ConvTranspose>, EstimateWorkspace<ConvTranspose>);
}

}  // namespace lamina
