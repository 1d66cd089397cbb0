// CumSum and CumProd: running sums and products along an axis.
#include "providers/cpu/elementwise/arithmetic_ops.h"
#include "providers/cpu/kernel_util.h"

namespace lamina {
namespace {

class Cumulative : public Kernel {
 public:
  explicit Cumulative(const NodeInfo& node)
      : product_(node.op_type() == "CumProd"),
        exclusive_(node.Int("exclusive", 0) != 0),
        reverse_(node.Int("reverse", 0) != 0) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* axis_input, RequireInput(context, 1));
    LAMINA_ASSIGN_OR_RETURN(const int64_t axis_number, ReadInt(*axis_input));
    const Shape& shape = input->shape();
    LAMINA_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_number, shape.rank()));
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, shape));
    if (!out || out->num_elements() == 0) return Status();
    const int64_t extent = shape[axis];
    const int64_t inner = shape.num_elements(axis + 1, shape.rank());
    DispatchType<float, double, Float16, Bfloat16, int32_t, int64_t, uint32_t, uint64_t>(
        input->type(), [&](auto tag) {
          using T = typename decltype(tag)::type;
          const T* x = input->data<T>();
          T* y = out->mutable_data<T>();
          context.threads().ParallelFor(shape.num_elements() / extent, GrainOf(2 * extent),
                                        [&](int64_t begin, int64_t end, int) {
                                          for (int64_t i = begin; i < end; ++i) {
                                            const int64_t first = i / inner * extent * inner + i % inner;
                                            product_ ? Scan<MulOp>(x + first, y + first, extent, inner)
                                                     : Scan<AddOp>(x + first, y + first, extent, inner);
                                          }
                                        });
        });
    return Status();
  }

 private:
  template <typename Op, typename T>
  void Scan(const T* x, T* y, int64_t count, int64_t stride) const {
    using C = ComputeType<T>;
    C running = product_ ? C(1) : C(0);
    for (int64_t step = 0; step < count; ++step) {
      const int64_t place = (reverse_ ? count - 1 - step : step) * stride;
      const C next = Op::Apply(running, static_cast<C>(x[place]));  // read before an in-place write
      y[place] = static_cast<T>(exclusive_ ? running : next);
      running = next;
    }
  }

  bool product_;
  bool exclusive_;
  bool reverse_;
};

}  // namespace

void RegisterCumulativeKernels(KernelRegistry& registry) {
  const TypeSet types =
      kFloatTypes | TypeSet{DataType::kInt32, DataType::kInt64, DataType::kUint32, DataType::kUint64};
  for (const auto& [name, since] : {std::pair{"CumSum", 11}, std::pair{"CumProd", 26}}) {
    registry.Add(KernelDef(name).Since(since).Input(0, types).Output(0, types).HostInput(1).MayInplace(0, 0),
                 CreateKernel<Cumulative>);
  }
}

}  // namespace lamina
