// Add, Sub, Mul, Div, Mod, PRelu.
#include "providers/cpu/elementwise/arithmetic_ops.h"
#include "providers/cpu/elementwise/binary.h"

namespace lamina {
namespace {

template <typename Op>
Result<std::unique_ptr<Kernel>> CreateArithmetic(const NodeInfo& node) {
  return CreateBinaryKernel(
      node, FindArithmeticRow<Op, float, double, Float16, Bfloat16, int8_t, int16_t, int32_t, int64_t,
                              uint8_t, uint16_t, uint32_t, uint64_t>(node.input_type(0).element));
}

Result<std::unique_ptr<Kernel>> CreateMod(const NodeInfo& node) {
  constexpr int64_t kWork = 16;
  const DataType type = node.input_type(0).element;
  if (node.Int("fmod", 0) != 0) {
    return CreateBinaryKernel(
        node,
        FindArithmeticRow<FmodOp, float, double, Float16, Bfloat16, int8_t, int16_t, int32_t, int64_t,
                          uint8_t, uint16_t, uint32_t, uint64_t>(type),
        kWork);
  }
  if (kFloatTypes.Contains(type)) {
    return InvalidModelError("Mod of {} needs the attribute fmod = 1", DataTypeName(type));
  }
  return CreateBinaryKernel(
      node,
      FindArithmeticRow<FloorModOp, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>(
          type),
      kWork);
}

struct PReluOp {
  template <typename T>
  static T Apply(T x, T slope) {
    if constexpr (std::is_unsigned_v<T>) {
      return x;
    } else {
      return x < 0 ? MulOp::Apply(x, slope) : x;
    }
  }
};

// The slope broadcasts to the input, never the other way round. Before opset 7 a 1-D slope was per channel
// (axis 1).
class PRelu : public Kernel {
 public:
  explicit PRelu(const NodeInfo& node)
      : row_(FindArithmeticRow<PReluOp, float, double, Float16, Bfloat16, int32_t, int64_t, uint32_t,
                               uint64_t>(node.input_type(0).element)),
        channel_slope_(node.opset_version() < 7) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* slope, RequireInput(context, 1));
    if (x->type() != slope->type()) return InvalidArgumentError("the slope's type is not that of the input");
    Shape slope_shape = slope->shape();
    if (channel_slope_ && slope_shape.rank() == 1 && slope_shape[0] != 1) {
      LAMINA_ASSIGN_OR_RETURN(slope_shape, AlignLegacyOperand(x->shape(), slope_shape, true, 1, true));
    }
    LAMINA_ASSIGN_OR_RETURN(const Shape common, BroadcastShapes(x->shape(), slope_shape));
    if (!(common == x->shape())) {
      return InvalidArgumentError("slope {} does not broadcast to input {}", slope->shape().ToString(),
                                  x->shape().ToString());
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, x->shape()));
    if (!out) return Status();
    const BroadcastOperand operands[] = {{x->raw_data(), x->shape(), ElementBytes(x->type())},
                                         {slope->raw_data(), slope_shape, ElementBytes(x->type())}};
    ForEachBroadcastRow(context.threads(), operands, x->shape(), out->mutable_raw_data(),
                        ElementBytes(x->type()), /*work=*/1, row_);
    return Status();
  }

 private:
  BinaryRowFunction row_;
  bool channel_slope_;
};

}  // namespace

void RegisterArithmeticKernels(KernelRegistry& registry) {
  const auto add = [&](const char* name, TypeSet types, int since, KernelCreateFunc create) {
    registry.Add(
        KernelDef(name).Since(since).Input(0, types).Input(1, types).Output(0, types).MayInplace(0, 0),
        create);
  };
  add("Add", kNumericTypes, 1, CreateArithmetic<AddOp>);
  add("Sub", kNumericTypes, 1, CreateArithmetic<SubOp>);
  add("Mul", kNumericTypes, 1, CreateArithmetic<MulOp>);
  add("Div", kNumericTypes, 1, CreateArithmetic<DivOp>);
  add("Mod", kNumericTypes, 10, CreateMod);
  add("PRelu",
      kFloatTypes | TypeSet{DataType::kInt32, DataType::kInt64, DataType::kUint32, DataType::kUint64}, 1,
      CreateKernel<PRelu>);
}

}  // namespace lamina
