// ConvInteger and QLinearConv: convolutions of 8-bit integers, summed in int32.
#include <algorithm>

#include "providers/cpu/nn/conv_windows.h"
#include "providers/cpu/quant/quant_params.h"

namespace lamina {
namespace {

constexpr TypeSet kBytes{DataType::kInt8, DataType::kUint8};

// Where the operands of one call are.
struct IntegerConvCall {
  const Tensor* x = nullptr;
  const Tensor* weights = nullptr;
  const Tensor* x_zero = nullptr;
  const Tensor* w_zero = nullptr;  // one, or one for each filter
  int64_t groups = 1;
};

constexpr int64_t kTile = 256;

// sums[i] += weight * (the input that tap (outer_tap, tap_x) of output (row, first + i) reads, less its zero
// point); elements in the padding are zero points.
template <typename T>
void AccumulateTap(const WindowGeometry& window, const T* plane, int32_t zero, int64_t line, int64_t tap_x,
                   int64_t first, int64_t count, int32_t weight, int32_t* sums) {
  const int last = window.rank - 1;
  const int64_t width = window.input[last];
  const int64_t stride = window.strides[last];
  const int64_t offset = first * stride - window.pads_begin[last] + tap_x * window.dilations[last];
  const int64_t begin = std::clamp<int64_t>(offset >= 0 ? 0 : (-offset + stride - 1) / stride, 0, count);
  const int64_t end =
      std::clamp<int64_t>(offset >= width ? 0 : (width - offset + stride - 1) / stride, begin, count);
  const T* source = plane + line * width + offset;
  if (stride == 1) {
    for (int64_t i = begin; i < end; ++i) sums[i] += weight * (int32_t{source[i]} - zero);
  } else {
    for (int64_t i = begin; i < end; ++i) sums[i] += weight * (int32_t{source[i * stride]} - zero);
  }
}

// Calls store(filter, first flat output index, count, sums) for all outputs.
template <typename T, typename Store>
void ConvolveTyped(ThreadPool& threads, const IntegerConvCall& call, const WindowGeometry& window,
                   const Store& store) {
  const int64_t filters = call.weights->shape()[0];
  const int64_t channels = call.weights->shape()[1];
  const int64_t kernel = window.kernel_size();
  const int64_t taps_x = window.kernel[window.rank - 1];
  const int64_t width = window.output[window.rank - 1];
  const int64_t rows = window.output_size() / width;
  const int32_t x_zero = call.x_zero ? IntAt(*call.x_zero, 0) : 0;
  threads.ParallelFor(
      call.x->shape()[0] * filters * rows, GrainOf(width * channels * kernel),
      [&](int64_t begin, int64_t end, int) {
        int32_t sums[kTile];
        for (int64_t unit = begin; unit < end; ++unit) {
          const int64_t row = unit % rows;
          const int64_t plane = unit / rows;
          const int64_t filter = plane % filters;
          const int64_t group = filter / (filters / call.groups);
          const int32_t w_zero =
              call.w_zero ? IntAt(*call.w_zero, call.w_zero->num_elements() == 1 ? 0 : filter) : 0;
          const T* input =
              call.x->data<T>() + (plane / filters * call.groups + group) * channels * window.input_size();
          for (int64_t first = 0; first < width; first += kTile) {
            const int64_t count = std::min(kTile, width - first);
            std::fill_n(sums, count, 0);
            for (int64_t tap = 0; tap < channels * kernel; ++tap) {
              const int64_t line = WindowLine(window, row, tap % kernel / taps_x);
              if (line < 0) continue;
              const int32_t weight = IntAt(*call.weights, filter * channels * kernel + tap) - w_zero;
              AccumulateTap(window, input + tap / kernel * window.input_size(), x_zero, line, tap % taps_x,
                            first, count, weight, sums);
            }
            store(filter, (plane * rows + row) * width + first, count, sums);
          }
        }
      });
}

template <typename Store>
void Convolve(ThreadPool& threads, const IntegerConvCall& call, const WindowGeometry& window,
              const Store& store) {
  if (window.output_size() == 0) return;
  const WindowGeometry geometry = IsPointwise(window) ? Flattened(window) : window;
  if (call.x->type() == DataType::kUint8) {
    ConvolveTyped<uint8_t>(threads, call, geometry, store);
  } else {
    ConvolveTyped<int8_t>(threads, call, geometry, store);
  }
}

Status CheckShapes(const IntegerConvCall& call) {
  const Shape& shape = call.x->shape();
  const Shape& weights = call.weights->shape();
  if (shape.rank() < 3 || weights.rank() != shape.rank() || weights[0] % call.groups != 0 ||
      weights[1] * call.groups != shape[1]) {
    return InvalidArgumentError("weights {} with {} groups do not fit input {}", weights.ToString(),
                                call.groups, shape.ToString());
  }
  if (call.w_zero && call.w_zero->num_elements() != 1 && call.w_zero->num_elements() != weights[0]) {
    return InvalidArgumentError("{} zero points for {} filters", call.w_zero->num_elements(), weights[0]);
  }
  return Status();
}

class ConvInteger : public Kernel {
 public:
  explicit ConvInteger(const NodeInfo& node) : window_(node), groups_(node.Int("group", 1)) {}
  static Status Validate(const NodeInfo& node) {
    if (node.Int("group", 1) < 1) return InvalidModelError("group must be positive");
    return WindowAttributes::Validate(node);
  }

  Status Compute(KernelContext& context) const override {
    IntegerConvCall call;
    LAMINA_ASSIGN_OR_RETURN(call.x, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(call.weights, RequireInput(context, 1));
    call.x_zero = context.Input(2);
    call.w_zero = context.Input(3);
    call.groups = groups_;
    LAMINA_RETURN_IF_ERROR(CheckShapes(call));
    LAMINA_ASSIGN_OR_RETURN(
        const WindowGeometry window,
        window_.Resolve(call.x->shape().dims().subspan(2), call.weights->shape().dims().subspan(2)));
    LAMINA_ASSIGN_OR_RETURN(
        Tensor * y, context.Output(0, window.OutputShape(call.x->shape()[0], call.weights->shape()[0])));
    if (!y) return Status();
    int32_t* target = y->mutable_data<int32_t>();
    Convolve(context.threads(), call, window,
             [&](int64_t, int64_t first, int64_t count, const int32_t* sums) {
               std::copy_n(sums, count, target + first);
             });
    return Status();
  }

 private:
  WindowAttributes window_;
  int64_t groups_;
};

// Inputs x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias (int32 of scale x_scale * w_scale).
class QLinearConv : public Kernel {
 public:
  explicit QLinearConv(const NodeInfo& node) : window_(node), groups_(node.Int("group", 1)) {}
  static Status Validate(const NodeInfo& node) { return ConvInteger::Validate(node); }

  Status Compute(KernelContext& context) const override {
    const Tensor* in[8] = {};
    for (int i = 0; i < 8; ++i) {
      LAMINA_ASSIGN_OR_RETURN(in[i], RequireInput(context, i));
    }
    const IntegerConvCall call{in[0], in[3], in[2], in[5], groups_};
    LAMINA_RETURN_IF_ERROR(CheckShapes(call));
    const int64_t filters = in[3]->shape()[0];
    const Tensor* bias = context.Input(8);
    if ((in[4]->num_elements() != 1 && in[4]->num_elements() != filters) ||
        (bias && bias->num_elements() != filters)) {
      return InvalidArgumentError("scales or bias do not fit {} filters", filters);
    }
    LAMINA_ASSIGN_OR_RETURN(const WindowGeometry window, window_.Resolve(in[0]->shape().dims().subspan(2),
                                                                         in[3]->shape().dims().subspan(2)));
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, window.OutputShape(in[0]->shape()[0], filters)));
    if (!y) return Status();
    const IntegerRange range = RangeOf(y->type());
    auto* target = static_cast<uint8_t*>(y->mutable_raw_data());
    const int32_t y_zero = IntAt(*in[7], 0);
    const double common = static_cast<double>(FloatAt(*in[1], 0)) / FloatAt(*in[6], 0);
    Convolve(context.threads(), call, window,
             [&](int64_t filter, int64_t first, int64_t count, const int32_t* sums) {
               const double scale = common * FloatAt(*in[4], in[4]->num_elements() == 1 ? 0 : filter);
               const double offset = bias ? bias->data<int32_t>()[filter] : 0;
               for (int64_t i = 0; i < count; ++i) {
                 target[first + i] =
                     static_cast<uint8_t>(QuantizeToInt((sums[i] + offset) * scale, y_zero, range));
               }
             });
    return Status();
  }

 private:
  WindowAttributes window_;
  int64_t groups_;
};

}  // namespace

void RegisterQLinearConvKernels(KernelRegistry& registry) {
  registry.Add(
      KernelDef("ConvInteger").Since(10).Input(0, kBytes).Input(1, kBytes).Output(0, DataType::kInt32),
      CreateKernel<ConvInteger>);
  registry.Add(KernelDef("QLinearConv").Since(10).Input(0, kBytes).Input(3, kBytes).Output(0, kBytes),
               CreateKernel<QLinearConv>);
}

}  // namespace lamina
