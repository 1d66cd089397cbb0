// MaxPool, AveragePool, LpPool, their global forms, and MaxUnpool.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "providers/cpu/elementwise/arithmetic_ops.h"
#include "providers/cpu/nn/conv_windows.h"
#include "providers/cpu/nn/window.h"

namespace lamina {
namespace {

// The taps of a window along one axis.
struct AxisTaps {
  int64_t first = 0;   // input coordinate of the first tap inside the input
  int64_t inside = 0;  // taps inside the input
  int64_t padded = 0;  // taps inside the input and its padding
};

AxisTaps TapsAt(const WindowGeometry& window, int axis, int64_t output) {
  const int64_t start = output * window.strides[axis] - window.pads_begin[axis];
  const int64_t dilation = window.dilations[axis];
  const int64_t kernel = window.kernel[axis];
  const int64_t skipped = start >= 0 ? 0 : (-start + dilation - 1) / dilation;
  const auto taps_before = [&](int64_t end) {
    return std::min(kernel, (end - start + dilation - 1) / dilation);
  };
  AxisTaps taps;
  taps.first = start + skipped * dilation;
  taps.inside = std::max<int64_t>(0, taps_before(window.input[axis]) - skipped);
  taps.padded = std::max<int64_t>(0, taps_before(window.input[axis] + window.pads_end[axis]));
  return taps;
}

// The part of a window that lies inside the input, and where an odometer over it starts.
struct WindowRange {
  IntList first;  // input coordinate of the first tap inside
  IntList taps;   // taps inside on each axis
  int64_t count = 1;
};

WindowRange RangeAt(const WindowGeometry& window, int64_t position) {
  WindowRange range;
  range.first = IntList(window.rank, 0);
  range.taps = IntList(window.rank, 0);
  for (int axis = window.rank - 1; axis >= 0; --axis) {
    const AxisTaps taps = TapsAt(window, axis, position % window.output[axis]);
    position /= window.output[axis];
    range.first[axis] = taps.first;
    range.taps[axis] = taps.inside;
    range.count *= taps.inside;
  }
  return range;
}

// Calls visit(offset in the plane) for the taps of the range, row-major.
template <typename F>
void ForEachTap(const WindowGeometry& window, const WindowRange& range, F visit) {
  if (range.count == 0) return;
  const int last = window.rank - 1;
  IntList index(window.rank, 0);
  while (true) {
    int64_t line = 0;
    for (int axis = 0; axis < window.rank; ++axis) {
      line = line * window.input[axis] + range.first[axis] + index[axis] * window.dilations[axis];
    }
    for (int64_t tap = 0; tap < range.taps[last]; ++tap) visit(line + tap * window.dilations[last]);
    int axis = last - 1;
    for (; axis >= 0; --axis) {
      if (++index[axis] < range.taps[axis]) break;
      index[axis] = 0;
    }
    if (axis < 0) return;
  }
}

// Reduces the windows of one output row, first down the lines that they cover, then along the line:
// neighbouring windows share the first half. `reduce(a, b)` is associative to rounding; `store(x, value)`
// takes the result of the taps inside the input, `empty` where there are none.
template <typename T, typename Reduce, typename Store>
void ReduceRow(const WindowGeometry& window, const T* plane, int64_t row, ComputeType<T> empty, Reduce reduce,
               Store store) {
  using C = ComputeType<T>;
  constexpr int64_t kColumns = 512;
  const int last = window.rank - 1;
  const int64_t width = window.output[last];
  const int64_t in_width = window.input[last];
  const int64_t stride = window.strides[last];
  const int64_t dilation = window.dilations[last];
  const int64_t taps = window.kernel[last];
  const int64_t lines = window.kernel_size() / taps;
  // Columns that the block's windows cover; taps of wide windows are taken in turns.
  const int64_t taps_at_once = std::min(taps, (kColumns - 1) / dilation + 1);
  const int64_t block = std::max<int64_t>(1, (kColumns - (taps_at_once - 1) * dilation - 1) / stride + 1);
  for (int64_t first = 0; first < width; first += block) {
    const int64_t count = std::min(block, width - first);
    C results[kColumns];
    std::fill_n(results, count, empty);
    for (int64_t tap = 0; tap < taps; tap += taps_at_once) {
      const int64_t some_taps = std::min(taps_at_once, taps - tap);
      const int64_t begin = first * stride - window.pads_begin[last] + tap * dilation;
      const int64_t span = (count - 1) * stride + (some_taps - 1) * dilation + 1;
      const int64_t from = std::clamp<int64_t>(-begin, 0, span);
      const int64_t to = std::clamp<int64_t>(in_width - begin, from, span);
      C columns[kColumns];
      std::fill_n(columns, span, empty);
      for (int64_t line = 0; line < lines; ++line) {
        const int64_t at = WindowLine(window, row, line);
        if (at < 0) continue;
        const T* source = plane + at * in_width + begin;
        for (int64_t i = from; i < to; ++i) columns[i] = reduce(columns[i], static_cast<C>(source[i]));
      }
      for (int64_t i = 0; i < some_taps; ++i) {
        const C* column = columns + i * dilation;
        for (int64_t x = 0; x < count; ++x) results[x] = reduce(results[x], column[x * stride]);
      }
    }
    for (int64_t x = 0; x < count; ++x) store(first + x, results[x]);
  }
}

// The larger one; NaN wins.
template <typename C>
struct Larger {
  C operator()(C best, C value) const { return value > best || value != value ? value : best; }
};

// [batch, channels, spatial...] -> geometry; with `global` one window over everything.
Result<WindowGeometry> GeometryOf(const WindowAttributes& attributes, const Shape& shape, bool global) {
  if (shape.rank() < 3) {
    return InvalidArgumentError("[batch, channels, spatial...] expected, found {}", shape.ToString());
  }
  const auto spatial = shape.dims().subspan(2);
  return attributes.Resolve(spatial, global ? spatial : attributes.kernel_shape().span());
}

class AveragePool : public Kernel {
 public:
  explicit AveragePool(const NodeInfo& node)
      : window_(node),
        global_(node.op_type() != "AveragePool"),
        count_padding_(node.Int("count_include_pad", 0) != 0) {}
  static Status Validate(const NodeInfo& node) { return WindowAttributes::Validate(node); }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    const Shape& shape = x->shape();
    LAMINA_ASSIGN_OR_RETURN(const WindowGeometry window, GeometryOf(window_, shape, global_));
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, window.OutputShape(shape[0], shape[1])));
    if (!y) return Status();
    DispatchType<float, double, Float16, Bfloat16>(x->type(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      Run<T>(context.threads(), window, shape[0] * shape[1], x->data<T>(), y->mutable_data<T>());
    });
    return Status();
  }

 private:
  template <typename T>
  void Run(ThreadPool& threads, const WindowGeometry& window, int64_t planes, const T* x, T* y) const {
    using C = ComputeType<T>;
    const int last = window.rank - 1;
    const int64_t width = window.output[last];
    const int64_t rows = window.output_size() / std::max<int64_t>(1, width);
    threads.ParallelFor(planes * rows, GrainOf(width * window.kernel_size()),
                        [&](int64_t begin, int64_t end, int) {
                          for (int64_t i = begin; i < end; ++i) {
                            const int64_t row = i % rows;
                            int64_t lines = 1;
                            for (int64_t axis = last - 1, rest = row; axis >= 0; --axis) {
                              const int a = static_cast<int>(axis);
                              lines *= Count(TapsAt(window, a, rest % window.output[a]));
                              rest /= window.output[a];
                            }
                            ReduceRow(window, x + i / rows * window.input_size(), row, C{0}, std::plus<C>(),
                                      [&](int64_t place, C sum) {
                                        const int64_t count = lines * Count(TapsAt(window, last, place));
                                        y[i * width + place] = static_cast<T>(sum / static_cast<C>(count));
                                      });
                          }
                        });
  }

  int64_t Count(const AxisTaps& taps) const { return count_padding_ ? taps.padded : taps.inside; }

  WindowAttributes window_;
  bool global_;
  bool count_padding_;
};

class LpPool : public Kernel {
 public:
  explicit LpPool(const NodeInfo& node)
      : window_(node),
        global_(node.op_type() != "LpPool"),
        p_(node.opset_version() < 2 ? node.Float("p", 2) : static_cast<float>(node.Int("p", 2))) {}
  static Status Validate(const NodeInfo& node) { return WindowAttributes::Validate(node); }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    const Shape& shape = x->shape();
    LAMINA_ASSIGN_OR_RETURN(const WindowGeometry window, GeometryOf(window_, shape, global_));
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, window.OutputShape(shape[0], shape[1])));
    if (!y) return Status();
    const int64_t outputs = window.output_size();
    const int64_t inputs = window.input_size();
    DispatchType<float, double, Float16, Bfloat16>(x->type(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      using C = ComputeType<T>;
      const T* source = x->data<T>();
      T* target = y->mutable_data<T>();
      const C p = static_cast<C>(p_);
      context.threads().ParallelFor(shape[0] * shape[1] * outputs, GrainOf(32 * window.kernel_size()),
                                    [&](int64_t begin, int64_t end, int) {
                                      for (int64_t i = begin; i < end; ++i) {
                                        const T* plane = source + i / outputs * inputs;
                                        C sum = 0;
                                        ForEachTap(window, RangeAt(window, i % outputs), [&](int64_t place) {
                                          sum += std::pow(std::abs(static_cast<C>(plane[place])), p);
                                        });
                                        target[i] = static_cast<T>(std::pow(sum, 1 / p));
                                      }
                                    });
    });
    return Status();
  }

 private:
  WindowAttributes window_;
  bool global_;
  float p_;
};

class MaxPool : public Kernel {
 public:
  explicit MaxPool(const NodeInfo& node)
      : window_(node),
        global_(node.op_type() != "MaxPool"),
        column_major_(node.Int("storage_order", 0) != 0) {}
  static Status Validate(const NodeInfo& node) { return WindowAttributes::Validate(node); }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    const Shape& shape = x->shape();
    LAMINA_ASSIGN_OR_RETURN(const WindowGeometry window, GeometryOf(window_, shape, global_));
    const Shape out_shape = window.OutputShape(shape[0], shape[1]);
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, out_shape));
    LAMINA_ASSIGN_OR_RETURN(Tensor * indices, context.Output(1, out_shape));
    if (!y) return Status();
    DispatchType<float, double, Float16, Bfloat16, int8_t, uint8_t>(x->type(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      Run<T>(context.threads(), window, shape[0] * shape[1], x->data<T>(), y->mutable_data<T>(),
             indices ? indices->mutable_data<int64_t>() : nullptr);
    });
    return Status();
  }

 private:
  template <typename T>
  void Run(ThreadPool& threads, const WindowGeometry& window, int64_t planes, const T* x, T* y,
           int64_t* indices) const {
    using C = ComputeType<T>;
    const int64_t outputs = window.output_size();
    const int64_t inputs = window.input_size();
    C least = std::numeric_limits<C>::lowest();
    if constexpr (std::is_floating_point_v<C>) least = -std::numeric_limits<C>::infinity();
    if (!indices) {
      const int64_t width = window.output[window.rank - 1];
      const int64_t rows = outputs / std::max<int64_t>(1, width);
      threads.ParallelFor(
          planes * rows, GrainOf(width * window.kernel_size()), [&](int64_t begin, int64_t end, int) {
            for (int64_t i = begin; i < end; ++i) {
              ReduceRow(window, x + i / rows * inputs, i % rows, least, Larger<C>(),
                        [&](int64_t place, C best) { y[i * width + place] = static_cast<T>(best); });
            }
          });
      return;
    }
    threads.ParallelFor(
        planes * outputs, GrainOf(2 * window.kernel_size()), [&](int64_t begin, int64_t end, int) {
          for (int64_t i = begin; i < end; ++i) {
            const T* plane = x + i / outputs * inputs;
            C best = least;
            int64_t found = -1;
            ForEachTap(window, RangeAt(window, i % outputs), [&](int64_t place) {
              const C value = static_cast<C>(plane[place]);
              if (value > best || value != value || found < 0) {
                best = value;
                found = place;
              }
            });
            y[i] = static_cast<T>(best);
            indices[i] = i / outputs * inputs + (column_major_ ? ColumnMajor(window, found) : found);
          }
        });
  }

  // The index in the plane counted with the first axis fastest.
  static int64_t ColumnMajor(const WindowGeometry& window, int64_t place) {
    int64_t index = 0;
    int64_t stride = window.input_size();
    for (int axis = window.rank - 1; axis >= 0; --axis) {
      stride /= window.input[axis];
      index += place % window.input[axis] * stride;
      place /= window.input[axis];
    }
    return index;
  }

  WindowAttributes window_;
  bool global_;
  bool column_major_;
};

// Puts values back to the indices that MaxPool found; zero elsewhere.
class MaxUnpool : public Kernel {
 public:
  explicit MaxUnpool(const NodeInfo& node) : window_(node) {}
  static Status Validate(const NodeInfo& node) { return WindowAttributes::Validate(node); }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* indices, RequireInput(context, 1));
    const Shape& shape = x->shape();
    const int spatial = shape.rank() - 2;
    if (spatial < 1 || !(indices->shape() == shape) || window_.kernel_shape().size() != spatial) {
      return InvalidArgumentError("indices {} and a window of {} axes do not fit {}",
                                  indices->shape().ToString(), window_.kernel_shape().size(),
                                  shape.ToString());
    }
    // The extents that the pool would have had, unless they are given.
    Shape natural{shape[0], shape[1]};
    for (int axis = 0; axis < spatial; ++axis) {
      const int64_t stride = window_.strides().empty() ? 1 : window_.strides()[axis];
      const int64_t pads = window_.pads().empty() ? 0 : window_.pads()[axis] + window_.pads()[spatial + axis];
      natural.Append((shape[axis + 2] - 1) * stride + window_.kernel_shape()[axis] - pads);
    }
    Shape out_shape = natural;
    if (const Tensor* given = context.Input(2)) {
      LAMINA_ASSIGN_OR_RETURN(const IntList dims, ReadInts(*given));
      if (dims.size() != shape.rank()) return InvalidArgumentError("output_shape has {} values", dims.size());
      out_shape = Shape(dims.span());
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, out_shape));
    if (!y) return Status();
    const int64_t total = natural.num_elements();
    const int64_t bytes = ElementBytes(x->type());
    auto* target = static_cast<std::byte*>(y->mutable_raw_data());
    std::fill_n(target, y->size_bytes(), std::byte{0});
    for (int64_t i = 0; i < x->num_elements(); ++i) {
      // Indices count in the natural shape; a larger output keeps their coordinates.
      int64_t index = indices->data<int64_t>()[i];
      if (index < 0 || index >= total) return InvalidArgumentError("index {} is out of range", index);
      int64_t place = 0;
      int64_t stride = 1;
      for (int axis = shape.rank() - 1; axis >= 0; --axis) {
        const int64_t at = index % natural[axis];
        if (at >= out_shape[axis]) return InvalidArgumentError("index {} is outside of the output", index);
        index /= natural[axis];
        place += at * stride;
        stride *= out_shape[axis];
      }
      CopyElements(x->type(), static_cast<const std::byte*>(x->raw_data()) + i * bytes,
                   target + place * bytes, 1);
    }
    return Status();
  }

 private:
  WindowAttributes window_;
};

}  // namespace

void RegisterPoolKernels(KernelRegistry& registry) {
  const TypeSet ordered = kFloatTypes | TypeSet{DataType::kInt8, DataType::kUint8};
  for (const char* name : {"AveragePool", "GlobalAveragePool"}) {
    registry.Add(KernelDef(name).Input(0, kFloatTypes).Output(0, kFloatTypes), CreateKernel<AveragePool>);
  }
  for (const char* name : {"LpPool", "GlobalLpPool"}) {
    registry.Add(KernelDef(name).Input(0, kFloatTypes).Output(0, kFloatTypes), CreateKernel<LpPool>);
  }
  for (const char* name : {"MaxPool", "GlobalMaxPool"}) {
    registry.Add(KernelDef(name).Input(0, ordered).Output(0, ordered).Output(1, DataType::kInt64),
                 CreateKernel<MaxPool>);
  }
  registry.Add(KernelDef("MaxUnpool")
                   .Since(9)
                   .Input(0, kFloatTypes)
                   .Input(1, DataType::kInt64)
                   .HostInput(2)
                   .Output(0, kFloatTypes),
               CreateKernel<MaxUnpool>);
}

}  // namespace lamina
