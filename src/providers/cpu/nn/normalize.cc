// LRN, LpNormalization, MeanVarianceNormalization, Hardmax.
#include <cmath>

#include "providers/cpu/kernel_util.h"

namespace lamina {
namespace {

// Local response normalisation: each element is divided by a power of the squares of its neighbours on the
// channel axis.
class Lrn : public Kernel {
 public:
  explicit Lrn(const NodeInfo& node)
      : alpha_(node.Float("alpha", 1e-4f)),
        beta_(node.Float("beta", 0.75f)),
        bias_(node.Float("bias", 1)),
        size_(node.Int("size", 1)) {}
  static Status Validate(const NodeInfo& node) {
    return node.Int("size", 0) < 1 ? InvalidModelError("size must be positive") : Status();
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    const Shape& shape = x->shape();
    if (shape.rank() < 2)
      return InvalidArgumentError("[batch, channels, ...] expected, found {}", shape.ToString());
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, shape));
    if (!y || y->num_elements() == 0) return Status();
    const int64_t channels = shape[1];
    const int64_t inner = shape.num_elements(2, shape.rank());
    DispatchType<float, double, Float16, Bfloat16>(x->type(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      using C = ComputeType<T>;
      const T* source = x->data<T>();
      T* target = y->mutable_data<T>();
      context.threads().ParallelFor(
          x->num_elements(), GrainOf(2 * size_ + 32), [&](int64_t begin, int64_t end, int) {
            for (int64_t i = begin; i < end; ++i) {
              const int64_t channel = i / inner % channels;
              const int64_t first = std::max<int64_t>(0, channel - (size_ - 1) / 2);
              const int64_t last = std::min(channels - 1, channel + size_ / 2);
              C squares = 0;
              for (int64_t c = first; c <= last; ++c) {
                const C value = static_cast<C>(source[i + (c - channel) * inner]);
                squares += value * value;
              }
              const C base = static_cast<C>(bias_) + static_cast<C>(alpha_) / static_cast<C>(size_) * squares;
              target[i] = static_cast<T>(static_cast<C>(source[i]) / std::pow(base, static_cast<C>(beta_)));
            }
          });
    });
    return Status();
  }

 private:
  float alpha_;
  float beta_;
  float bias_;
  int64_t size_;
};

// A vector along an axis: `extent` elements `stride` apart.
struct AxisView {
  int64_t extent = 1;
  int64_t stride = 1;
  // Place of the first element of vector `i` of the tensor.
  int64_t First(int64_t i) const { return i / stride * extent * stride + i % stride; }
};

AxisView ViewOf(const Shape& shape, int axis) {
  return {shape[axis], shape.num_elements(axis + 1, shape.rank())};
}

// Divides by the norm of order p; vectors of norm 0 become 0.
class LpNormalization : public Kernel {
 public:
  explicit LpNormalization(const NodeInfo& node) : axis_(node.Int("axis", -1)), p_(node.Int("p", 2)) {}
  static Status Validate(const NodeInfo& node) {
    const int64_t p = node.Int("p", 2);
    return p == 1 || p == 2 ? Status() : InvalidModelError("p must be 1 or 2, found {}", p);
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, x->shape().rank()));
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, x->shape()));
    if (!y || y->num_elements() == 0) return Status();
    const AxisView view = ViewOf(x->shape(), axis);
    DispatchType<float, double, Float16, Bfloat16>(x->type(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      using C = ComputeType<T>;
      context.threads().ParallelFor(
          x->num_elements() / view.extent, GrainOf(3 * view.extent), [&](int64_t begin, int64_t end, int) {
            for (int64_t i = begin; i < end; ++i) {
              const T* source = x->data<T>() + view.First(i);
              T* target = y->mutable_data<T>() + view.First(i);
              C norm = 0;
              for (int64_t k = 0; k < view.extent; ++k) {
                const C value = static_cast<C>(source[k * view.stride]);
                norm += p_ == 1 ? std::abs(value) : value * value;
              }
              if (p_ == 2) norm = std::sqrt(norm);
              for (int64_t k = 0; k < view.extent; ++k) {
                const C value = static_cast<C>(source[k * view.stride]);
                target[k * view.stride] = static_cast<T>(norm == 0 ? C(0) : value / norm);
              }
            }
          });
    });
    return Status();
  }

 private:
  int64_t axis_;
  int64_t p_;
};

// 1 at the first maximum along the axis, 0 elsewhere. Before opset 13 everything from the axis on is one
// vector.
class Hardmax : public Kernel {
 public:
  explicit Hardmax(const NodeInfo& node)
      : flatten_(node.opset_version() < 13), axis_(node.Int("axis", node.opset_version() < 13 ? 1 : -1)) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    const Shape& shape = x->shape();
    LAMINA_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, shape.rank()));
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, shape));
    if (!y || y->num_elements() == 0) return Status();
    const AxisView view =
        flatten_ ? AxisView{shape.num_elements(axis, shape.rank()), 1} : ViewOf(shape, axis);
    DispatchType<float, double, Float16, Bfloat16>(x->type(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      using C = ComputeType<T>;
      context.threads().ParallelFor(
          x->num_elements() / view.extent, GrainOf(2 * view.extent), [&](int64_t begin, int64_t end, int) {
            for (int64_t i = begin; i < end; ++i) {
              const T* source = x->data<T>() + view.First(i);
              T* target = y->mutable_data<T>() + view.First(i);
              int64_t best = 0;
              for (int64_t k = 1; k < view.extent; ++k) {
                if (static_cast<C>(source[k * view.stride]) > static_cast<C>(source[best * view.stride]))
                  best = k;
              }
              for (int64_t k = 0; k < view.extent; ++k)
                target[k * view.stride] = static_cast<T>(C(k == best ? 1 : 0));
            }
          });
    });
    return Status();
  }

 private:
  bool flatten_;
  int64_t axis_;
};

// (x - mean) / (deviation + 1e-9) over the axes.
class MeanVarianceNormalization : public Kernel {
 public:
  explicit MeanVarianceNormalization(const NodeInfo& node)
      : axes_(node.Ints("axes").empty() ? IntList(std::array<int64_t, 3>{0, 2, 3})
                                        : IntList(node.Ints("axes"))) {}
  static Status Validate(const NodeInfo& node) { return IntsAttribute(node, "axes").status(); }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    const Shape& shape = x->shape();
    LAMINA_ASSIGN_OR_RETURN(const uint32_t mask, AxisMask(axes_.span(), shape.rank()));
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, shape));
    if (!y || y->num_elements() == 0) return Status();
    Shape kept;
    Shape reduced;
    IntList kept_strides;
    IntList reduced_strides;
    const IntList strides = ContiguousStrides(shape);
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const bool is_reduced = (mask >> axis & 1u) != 0;
      (is_reduced ? reduced : kept).Append(shape[axis]);
      (is_reduced ? reduced_strides : kept_strides).Append(strides[axis]);
    }
    const auto offset = [](const Shape& extents, const IntList& steps, int64_t position) {
      int64_t place = 0;
      for (int axis = extents.rank() - 1; axis >= 0; --axis) {
        place += position % extents[axis] * steps[axis];
        position /= extents[axis];
      }
      return place;
    };
    const int64_t count = reduced.num_elements();
    DispatchType<float, double, Float16, Bfloat16>(x->type(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      using C = ComputeType<T>;
      context.threads().ParallelFor(
          kept.num_elements(), GrainOf(16 * count), [&](int64_t begin, int64_t end, int) {
            for (int64_t i = begin; i < end; ++i) {
              const int64_t first = offset(kept, kept_strides, i);
              const T* source = x->data<T>() + first;
              T* target = y->mutable_data<T>() + first;
              double mean = 0;
              for (int64_t k = 0; k < count; ++k)
                mean += static_cast<C>(source[offset(reduced, reduced_strides, k)]);
              mean /= static_cast<double>(count);
              double variance = 0;
              for (int64_t k = 0; k < count; ++k) {
                const double d = static_cast<C>(source[offset(reduced, reduced_strides, k)]) - mean;
                variance += d * d;
              }
              const double deviation = std::sqrt(variance / static_cast<double>(count)) + 1e-9;
              for (int64_t k = 0; k < count; ++k) {
                const int64_t place = offset(reduced, reduced_strides, k);
                target[place] =
                    static_cast<T>(static_cast<C>((static_cast<C>(source[place]) - mean) / deviation));
              }
            }
          });
    });
    return Status();
  }

 private:
  IntList axes_;
};

}  // namespace

void RegisterNormalizeKernels(KernelRegistry& registry) {
  const auto add = [&](const char* name, int since, KernelCreateFunc create) {
    registry.Add(KernelDef(name).Since(since).Input(0, kFloatTypes).Output(0, kFloatTypes), create);
  };
  add("LRN", 1, CreateKernel<Lrn>);
  add("LpNormalization", 1, CreateKernel<LpNormalization>);
  add("Hardmax", 1, CreateKernel<Hardmax>);
  add("MeanVarianceNormalization", 9, CreateKernel<MeanVarianceNormalization>);
}

}  // namespace lamina
