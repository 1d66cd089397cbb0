// ArgMax and ArgMin.
#include "providers/cpu/kernel_util.h"

namespace lamina {
namespace {

class ArgReduce : public Kernel {
 public:
  explicit ArgReduce(const NodeInfo& node)
      : maximum_(node.op_type() == "ArgMax"),
        axis_(node.Int("axis", 0)),
        keep_dims_(node.Int("keepdims", 1) != 0),
        last_(node.Int("select_last_index", 0) != 0) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    const Shape& shape = input->shape();
    LAMINA_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, shape.rank()));
    if (shape[axis] == 0) return InvalidArgumentError("axis {} of {} is empty", axis, shape.ToString());
    Shape out_shape;
    for (int i = 0; i < shape.rank(); ++i) {
      if (i != axis) {
        out_shape.Append(shape[i]);
      } else if (keep_dims_) {
        out_shape.Append(1);
      }
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, out_shape));
    if (!out) return Status();
    const int64_t extent = shape[axis];
    const int64_t inner = shape.num_elements(axis + 1, shape.rank());
    int64_t* result = out->mutable_data<int64_t>();
    DispatchType<float, double, Float16, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                 uint32_t, uint64_t>(input->type(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T* x = input->data<T>();
      context.threads().ParallelFor(
          out->num_elements(), GrainOf(extent), [&](int64_t begin, int64_t end, int) {
            for (int64_t i = begin; i < end; ++i) {
              result[i] = Find(x + i / inner * extent * inner + i % inner, extent, inner);
            }
          });
    });
    return Status();
  }

 private:
  // NaN counts as larger and as smaller than everything: it is what is found.
  template <typename T>
  int64_t Find(const T* x, int64_t count, int64_t stride) const {
    using C = ComputeType<T>;
    C best = static_cast<C>(x[0]);
    int64_t found = 0;
    for (int64_t i = 1; i < count; ++i) {
      const C value = static_cast<C>(x[i * stride]);
      const bool better = maximum_ ? value > best : value < best;
      const bool takes_over = better || (value != value && best == best) ||
                              (last_ && (value == best || (value != value && best != best)));
      if (takes_over) {
        best = value;
        found = i;
      }
    }
    return found;
  }

  bool maximum_;
  int64_t axis_;
  bool keep_dims_;
  bool last_;
};

}  // namespace

void RegisterArgReduceKernels(KernelRegistry& registry) {
  for (const char* name : {"ArgMax", "ArgMin"}) {
    registry.Add(KernelDef(name).Input(0, kNumericTypes).Output(0, DataType::kInt64),
                 CreateKernel<ArgReduce>);
  }
}

}  // namespace lamina
