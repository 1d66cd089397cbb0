// Max, Min, Sum, Mean: any number of inputs, broadcast together (since opset 8; before that of one shape).
#include "providers/cpu/elementwise/arithmetic_ops.h"
#include "providers/cpu/elementwise/binary.h"

namespace lamina {
namespace {

// Folds the inputs into the output one after the other; with `mean` the last step divides by their number.
class VariadicKernel : public Kernel {
 public:
  VariadicKernel(BinaryRowFunction fold, BinaryRowFunction divide) : fold_(fold), divide_(divide) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* first, RequireInput(context, 0));
    const DataType type = first->type();
    Shape shape = first->shape();
    for (int i = 1; i < context.num_inputs(); ++i) {
      LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, i));
      if (input->type() != type) return InvalidArgumentError("the inputs' types differ");
      LAMINA_ASSIGN_OR_RETURN(shape, BroadcastShapes(shape, input->shape()));
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, shape));
    if (!out) return Status();
    const int64_t bytes = ElementBytes(type);
    const int inputs = context.num_inputs();
    if (inputs == 1) {
      if (out->raw_data() != first->raw_data()) {
        CopyElements(type, first->raw_data(), out->mutable_raw_data(), shape.num_elements());
      }
      return Status();
    }
    BroadcastOperand accumulated{first->raw_data(), first->shape(), bytes};
    for (int i = 1; i < inputs; ++i) {
      const Tensor* input = context.Input(i);
      const BroadcastOperand operands[] = {accumulated, {input->raw_data(), input->shape(), bytes}};
      ForEachBroadcastRow(context.threads(), operands, shape, out->mutable_raw_data(), bytes, /*work=*/1,
                          fold_);
      accumulated = {out->raw_data(), shape, bytes};
    }
    if (divide_) {
      double count_bits = 0;  // room for one element
      DispatchType<float, double, Float16, Bfloat16>(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const T count = static_cast<T>(static_cast<float>(inputs));
        std::copy_n(reinterpret_cast<const std::byte*>(&count), sizeof(T),
                    reinterpret_cast<std::byte*>(&count_bits));
      });
      const BroadcastOperand operands[] = {accumulated, {&count_bits, Shape(), bytes}};
      ForEachBroadcastRow(context.threads(), operands, shape, out->mutable_raw_data(), bytes, /*work=*/1,
                          divide_);
    }
    return Status();
  }

 private:
  BinaryRowFunction fold_;
  BinaryRowFunction divide_;  // null: no mean
};

template <typename Op>
Result<std::unique_ptr<Kernel>> CreateExtremum(const NodeInfo& node) {
  return std::unique_ptr<Kernel>(std::make_unique<VariadicKernel>(
      FindArithmeticRow<Op, float, double, Float16, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t,
                        uint16_t, uint32_t, uint64_t>(node.input_type(0).element),
      nullptr));
}

template <bool kMean>
Result<std::unique_ptr<Kernel>> CreateSum(const NodeInfo& node) {
  const DataType type = node.input_type(0).element;
  return std::unique_ptr<Kernel>(std::make_unique<VariadicKernel>(
      FindArithmeticRow<AddOp, float, double, Float16, Bfloat16>(type),
      kMean ? FindArithmeticRow<DivOp, float, double, Float16, Bfloat16>(type) : nullptr));
}

}  // namespace

void RegisterVariadicKernels(KernelRegistry& registry) {
  const auto add = [&](const char* name, TypeSet types, KernelCreateFunc create) {
    registry.Add(KernelDef(name).Input(0, types).VariadicInputs().Output(0, types).MayInplace(0, 0), create);
  };
  add("Max", kNumericTypes, CreateExtremum<MaxOp>);
  add("Min", kNumericTypes, CreateExtremum<MinOp>);
  add("Sum", kFloatTypes, CreateSum<false>);
  add("Mean", kFloatTypes, CreateSum<true>);
}

}  // namespace lamina
