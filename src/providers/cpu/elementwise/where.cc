// Where: selects between two operands, all three broadcast together.
#include <string>

#include "providers/cpu/elementwise/broadcast.h"
#include "providers/cpu/kernel_util.h"

namespace lamina {
namespace {

template <typename T>
void WhereRow(const BroadcastRow& row) {
  const bool* condition = row.input<bool>(0);
  const T* x = row.input<T>(1);
  const T* y = row.input<T>(2);
  T* out = row.out<T>();
  if (row.repeated[0]) {
    const int chosen = *condition ? 1 : 2;
    const T* source = row.input<T>(chosen);
    if (row.repeated[static_cast<size_t>(chosen)]) {
      std::fill_n(out, row.count, *source);
    } else if (source != out) {
      std::copy_n(source, row.count, out);
    }
    return;
  }
  const int64_t x_step = row.repeated[1] ? 0 : 1;
  const int64_t y_step = row.repeated[2] ? 0 : 1;
  for (int64_t i = 0; i < row.count; ++i) out[i] = condition[i] ? x[i * x_step] : y[i * y_step];
}

struct Bytes16 {
  uint64_t low;
  uint64_t high;
};

class Where : public Kernel {
 public:
  explicit Where(const NodeInfo&) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* condition, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 1));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* y, RequireInput(context, 2));
    if (x->type() != y->type()) return InvalidArgumentError("the types of the two choices differ");
    LAMINA_ASSIGN_OR_RETURN(Shape shape, BroadcastShapes(x->shape(), y->shape()));
    LAMINA_ASSIGN_OR_RETURN(shape, BroadcastShapes(shape, condition->shape()));
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, shape));
    if (!out) return Status();
    const int64_t bytes = ElementBytes(x->type());
    const BroadcastOperand operands[] = {{condition->raw_data(), condition->shape(), 1},
                                         {x->raw_data(), x->shape(), bytes},
                                         {y->raw_data(), y->shape(), bytes}};
    const auto run = [&](void (*row)(const BroadcastRow&)) {
      ForEachBroadcastRow(context.threads(), operands, shape, out->mutable_raw_data(), bytes, /*work=*/1,
                          row);
    };
    if (x->type() == DataType::kString) {
      run(WhereRow<std::string>);
    } else if (bytes == 1) {
      run(WhereRow<uint8_t>);
    } else if (bytes == 2) {
      run(WhereRow<uint16_t>);
    } else if (bytes == 4) {
      run(WhereRow<uint32_t>);
    } else if (bytes == 8) {
      run(WhereRow<uint64_t>);
    } else {
      run(WhereRow<Bytes16>);
    }
    return Status();
  }
};

}  // namespace

void RegisterWhereKernels(KernelRegistry& registry) {
  const TypeSet types = kNumericTypes | TypeSet{DataType::kBool, DataType::kString, DataType::kComplex64,
                                                DataType::kComplex128};
  registry.Add(KernelDef("Where")
                   .Since(9)
                   .Input(0, DataType::kBool)
                   .Input(1, types)
                   .Input(2, types)
                   .Output(0, types)
                   .MayInplace(1, 0),
               CreateKernel<Where>);
}

}  // namespace lamina
