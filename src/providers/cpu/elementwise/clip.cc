// Clip: the bounds are attributes before opset 11, then optional scalar inputs.
#include <limits>

#include "providers/cpu/kernel_util.h"

namespace lamina {
namespace {

template <typename T>
void ClipRange(const T* x, T* y, int64_t count, T low, T high) {
  // High wins where the bounds cross; NaN passes.
  for (int64_t i = 0; i < count; ++i) {
    const T raised = x[i] < low ? low : x[i];
    y[i] = high < raised ? high : raised;
  }
}

class Clip : public Kernel {
 public:
  explicit Clip(const NodeInfo& node)
      : from_attributes_(node.opset_version() < 11),
        min_(node.Float("min", std::numeric_limits<float>::lowest())),
        max_(node.Float("max", std::numeric_limits<float>::max())) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    for (int i = 1; i <= 2 && !from_attributes_; ++i) {
      const Tensor* bound = context.Input(i);
      if (bound && (bound->type() != input->type() || bound->num_elements() != 1)) {
        return InvalidArgumentError("a bound must be a scalar of type {}, found {}{}",
                                    DataTypeName(input->type()), DataTypeName(bound->type()),
                                    bound->shape().ToString());
      }
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, input->shape()));
    if (!out) return Status();
    DispatchType<float, double, Float16, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                 uint32_t, uint64_t>(
        input->type(), [&](auto tag) { Run<typename decltype(tag)::type>(context, *input, *out); });
    return Status();
  }

 private:
  template <typename T>
  void Run(KernelContext& context, const Tensor& input, Tensor& out) const {
    using C = ComputeType<T>;
    const auto bound = [&](int index, C absent, float attribute) {
      if (from_attributes_) return static_cast<C>(attribute);
      const Tensor* tensor = context.Input(index);
      return tensor ? static_cast<C>(*tensor->data<T>()) : absent;
    };
    const C none_low =
        std::is_floating_point_v<C> ? -std::numeric_limits<C>::infinity() : std::numeric_limits<C>::lowest();
    const C none_high =
        std::is_floating_point_v<C> ? std::numeric_limits<C>::infinity() : std::numeric_limits<C>::max();
    const C low = bound(1, none_low, min_);
    const C high = bound(2, none_high, max_);
    const T* x = input.data<T>();
    T* y = out.mutable_data<T>();
    context.threads().ParallelFor(input.num_elements(), GrainOf(1), [&](int64_t begin, int64_t end, int) {
      if constexpr (kIsHalf<T>) {
        for (int64_t i = begin; i < end; ++i) {
          const float value = x[i];
          const float raised = value < low ? low : value;
          y[i] = T(high < raised ? high : raised);
        }
      } else {
        ClipRange<T>(x + begin, y + begin, end - begin, low, high);
      }
    });
  }

  bool from_attributes_;
  float min_;
  float max_;
};

}  // namespace

void RegisterClipKernels(KernelRegistry& registry) {
  registry.Add(KernelDef("Clip").Since(1, 10).Input(0, kFloatTypes).Output(0, kFloatTypes).MayInplace(0, 0),
               CreateKernel<Clip>);
  registry.Add(KernelDef("Clip").Since(11).Input(0, kNumericTypes).Output(0, kNumericTypes).MayInplace(0, 0),
               CreateKernel<Clip>);
}

}  // namespace lamina
