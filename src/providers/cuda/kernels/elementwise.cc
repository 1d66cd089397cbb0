// Functions of one, two and three elements.
#include <algorithm>
#include <string>

#include "providers/cuda/kernels/cuda_kernel.h"
#include "providers/cuda/kernels/families.h"
#include "providers/cuda/kernels/loops.h"

namespace lamina::cuda {
namespace {

constexpr TypeSet kSignedIndexTypes = kIndexTypes;

struct UnaryFunction {
  UnaryOp op;
  float alpha = 0;
  float beta = 0;
};

class Unary : public CudaKernel {
 public:
  Unary(const NodeInfo& node, const KernelLauncher& launcher, const UnaryFunction& function)
      : CudaKernel(node, launcher), function_(function) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, Required(context, 0));
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, x->shape()));
    if (!y) return Status();
    const UnaryArguments arguments{function_.op,          ElementTypeOf(x->type()), x->raw_data(),
                                   y->mutable_raw_data(), x->num_elements(),        function_.alpha,
                                   function_.beta};
    return Launch(context.stream(), "unary", &KernelApi::unary, arguments);
  }

 private:
  UnaryFunction function_;
};

// A unary operator whose parameters are in its attributes.
template <UnaryFunction (*kFunctionOf)(const NodeInfo&)>
class UnaryOf : public Unary {
 public:
  UnaryOf(const NodeInfo& node, const KernelLauncher& launcher) : Unary(node, launcher, kFunctionOf(node)) {}
};

template <UnaryOp kOp>
UnaryFunction Plain(const NodeInfo&) {
  return {kOp};
}
UnaryFunction LeakyRelu(const NodeInfo& node) { return {UnaryOp::kLeakyRelu, node.Float("alpha", 0.01f)}; }
UnaryFunction Elu(const NodeInfo& node) { return {UnaryOp::kElu, node.Float("alpha", 1)}; }
UnaryFunction Swish(const NodeInfo& node) { return {UnaryOp::kSwish, node.Float("alpha", 1)}; }
UnaryFunction QuickGelu(const NodeInfo& node) { return {UnaryOp::kSwish, node.Float("alpha", 1.702f)}; }
UnaryFunction HardSigmoid(const NodeInfo& node) {
  return {UnaryOp::kHardSigmoid, node.Float("alpha", 0.2f), node.Float("beta", 0.5f)};
}
UnaryFunction GeluFunction(const NodeInfo& node) {
  return {node.String("approximate", "none") == "tanh" ? UnaryOp::kGeluTanh : UnaryOp::kGeluErf};
}

class Gelu : public UnaryOf<GeluFunction> {
 public:
  using UnaryOf::UnaryOf;
  static Status Validate(const NodeInfo& node) {
    const std::string_view approximate = node.String("approximate", "none");
    if (approximate == "none" || approximate == "tanh") return Status();
    return InvalidModelError("unknown approximation '{}'", approximate);
  }
};

class Binary : public CudaKernel {
 public:
  Binary(const NodeInfo& node, const KernelLauncher& launcher, BinaryOp op)
      : CudaKernel(node, launcher), op_(op), alpha_(node.Float("alpha", 1)) {}

  // Before opset 7 operands were aligned by attributes.
  static Status Validate(const NodeInfo& node) {
    if (node.domain().empty() && node.opset_version() < 7) {
      return UnsupportedError("broadcasting of opset {}: 7 and later are supported", node.opset_version());
    }
    return Status();
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* a, Required(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* b, Required(context, 1));
    if (a->type() != b->type()) {
      return UnsupportedError("operands of types {} and {}", DataTypeName(a->type()),
                              DataTypeName(b->type()));
    }
    LAMINA_ASSIGN_OR_RETURN(const Shape shape, BroadcastShape(a->shape(), b->shape()));
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, shape));
    if (!y) return Status();
    return Combine(context, *a, b->raw_data(), b->shape(), *y);
  }

 protected:
  Status Combine(KernelContext& context, const Tensor& a, const void* b, const Shape& b_shape,
                 Tensor& y) const {
    return CombineStrided(context, a, BroadcastStrides(a.shape(), y.shape()), b,
                          BroadcastStrides(b_shape, y.shape()), y);
  }
  Status CombineStrided(KernelContext& context, const Tensor& a, const AxisStrides& a_strides, const void* b,
                        const AxisStrides& b_strides, Tensor& y) const {
    BinaryArguments arguments{};
    arguments.op = op_;
    arguments.type = ElementTypeOf(a.type());
    arguments.a = a.raw_data();
    arguments.b = b;
    arguments.y = y.mutable_raw_data();
    arguments.alpha = alpha_;
    LAMINA_ASSIGN_OR_RETURN(arguments.loops, MakeLoops(y.shape(), {&a_strides, &b_strides}));
    return Launch(context.stream(), "binary", &KernelApi::binary, arguments);
  }

 private:
  BinaryOp op_;
  float alpha_;
};

template <BinaryOp kOp>
class BinaryOf : public Binary {
 public:
  BinaryOf(const NodeInfo& node, const KernelLauncher& launcher) : Binary(node, launcher, kOp) {}
};

// swish(a) * b; of the domain of rewrites also for the halves of one tensor's rows.
class SwiGlu : public Binary {
 public:
  SwiGlu(const NodeInfo& node, const KernelLauncher& launcher) : Binary(node, launcher, BinaryOp::kSwiGlu) {}

  static Status Validate(const NodeInfo&) { return Status(); }

  Status Compute(KernelContext& context) const override {
    if (Optional(context, 1)) return Binary::Compute(context);
    LAMINA_ASSIGN_OR_RETURN(const Tensor* packed, Required(context, 0));
    Shape shape = packed->shape();
    const int last = shape.rank() - 1;
    if (last < 0 || shape[last] % 2 != 0) {
      return InvalidArgumentError("rows of an even size are needed, found {}", shape.ToString());
    }
    shape[last] /= 2;
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, shape));
    if (!y) return Status();
    const AxisStrides strides = ContiguousStrides(packed->shape());
    const auto* gate = static_cast<const std::byte*>(packed->raw_data());
    const void* up = gate + shape[last] * ElementBytesOf(packed->type());
    return CombineStrided(context, *packed, strides, up, strides, *y);
  }
};

// Max, Min and Sum of any number of inputs, one after the other.
template <BinaryOp kOp>
class Variadic : public Binary {
 public:
  Variadic(const NodeInfo& node, const KernelLauncher& launcher) : Binary(node, launcher, kOp) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* first, Required(context, 0));
    Shape shape = first->shape();
    for (int i = 1; i < context.num_inputs(); ++i) {
      LAMINA_ASSIGN_OR_RETURN(const Tensor* input, Required(context, i));
      if (input->type() != first->type()) return InvalidArgumentError("the inputs' types differ");
      LAMINA_ASSIGN_OR_RETURN(shape, BroadcastShape(shape, input->shape()));
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, shape));
    if (!y) return Status();
    if (context.num_inputs() == 1) {
      return CopyBytes(context.stream(), first->raw_data(), y->mutable_raw_data(), first->size_bytes());
    }
    const Tensor* sum = first;
    for (int i = 1; i < context.num_inputs(); ++i) {
      const Tensor& input = *context.Input(i);
      LAMINA_RETURN_IF_ERROR(Combine(context, *sum, input.raw_data(), input.shape(), *y));
      sum = y;
    }
    return Status();
  }
};

class Where : public CudaKernel {
 public:
  Where(const NodeInfo& node, const KernelLauncher& launcher) : CudaKernel(node, launcher) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* condition, Required(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, Required(context, 1));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* y, Required(context, 2));
    if (x->type() != y->type()) return InvalidArgumentError("the types of the two choices differ");
    LAMINA_ASSIGN_OR_RETURN(Shape shape, BroadcastShape(x->shape(), y->shape()));
    LAMINA_ASSIGN_OR_RETURN(shape, BroadcastShape(shape, condition->shape()));
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, shape));
    if (!out) return Status();
    const AxisStrides condition_strides = BroadcastStrides(condition->shape(), shape);
    const AxisStrides x_strides = BroadcastStrides(x->shape(), shape);
    const AxisStrides y_strides = BroadcastStrides(y->shape(), shape);
    WhereArguments arguments{};
    arguments.element_bytes = ElementBytesOf(x->type());
    arguments.condition = static_cast<const uint8_t*>(condition->raw_data());
    arguments.x = x->raw_data();
    arguments.y = y->raw_data();
    arguments.out = out->mutable_raw_data();
    LAMINA_ASSIGN_OR_RETURN(arguments.loops, MakeLoops(shape, {&condition_strides, &x_strides, &y_strides}));
    return Launch(context.stream(), "where", &KernelApi::where, arguments);
  }
};

class Cast : public CudaKernel {
 public:
  Cast(const NodeInfo& node, const KernelLauncher& launcher) : CudaKernel(node, launcher) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, Required(context, 0));
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, x->shape()));
    if (!y) return Status();
    if (x->type() == y->type()) {
      return CopyBytes(context.stream(), x->raw_data(), y->mutable_raw_data(), x->size_bytes());
    }
    const CastArguments arguments{ElementTypeOf(x->type()), ElementTypeOf(y->type()), x->raw_data(),
                                  y->mutable_raw_data(), x->num_elements()};
    return Launch(context.stream(), "cast", &KernelApi::cast, arguments);
  }
};

template <typename K>
void AddUnary(KernelRegistrar& registrar, const char* name, TypeSet types, int since = 1,
              std::string_view domain = "") {
  registrar.Add<K>(KernelDef(name, domain).Since(since).Input(0, types).Output(0, types).MayInplace(0, 0));
}

template <BinaryOp kOp>
void AddArithmetic(KernelRegistrar& registrar, const char* name, TypeSet types) {
  registrar.Add<BinaryOf<kOp>>(
      KernelDef(name).Since(7).Input(0, types).Input(1, types).Output(0, types).MayInplace(0, 0));
}

template <BinaryOp kOp>
void AddPredicate(KernelRegistrar& registrar, const char* name, TypeSet types, int since = 7) {
  registrar.Add<BinaryOf<kOp>>(
      KernelDef(name).Since(since).Input(0, types).Input(1, types).Output(0, DataType::kBool));
}

template <BinaryOp kOp>
void AddVariadic(KernelRegistrar& registrar, const char* name, TypeSet types) {
  registrar.Add<Variadic<kOp>>(KernelDef(name).Since(8).VariadicInputs().Input(0, types).Output(0, types));
}

}  // namespace

void RegisterElementwise(KernelRegistrar& registrar) {
  const TypeSet floats = kHalfAndFloatTypes;
  const TypeSet numbers = floats | kSignedIndexTypes;
  AddUnary<UnaryOf<Plain<UnaryOp::kAbs>>>(registrar, "Abs", numbers);
  AddUnary<UnaryOf<Plain<UnaryOp::kNeg>>>(registrar, "Neg", numbers);
  AddUnary<UnaryOf<Plain<UnaryOp::kSign>>>(registrar, "Sign", numbers, 9);
  AddUnary<UnaryOf<Plain<UnaryOp::kCeil>>>(registrar, "Ceil", floats);
  AddUnary<UnaryOf<Plain<UnaryOp::kFloor>>>(registrar, "Floor", floats);
  AddUnary<UnaryOf<Plain<UnaryOp::kRound>>>(registrar, "Round", floats, 11);
  AddUnary<UnaryOf<Plain<UnaryOp::kReciprocal>>>(registrar, "Reciprocal", floats);
  AddUnary<UnaryOf<Plain<UnaryOp::kSqrt>>>(registrar, "Sqrt", floats);
  AddUnary<UnaryOf<Plain<UnaryOp::kExp>>>(registrar, "Exp", floats);
  AddUnary<UnaryOf<Plain<UnaryOp::kLog>>>(registrar, "Log", floats);
  AddUnary<UnaryOf<Plain<UnaryOp::kSin>>>(registrar, "Sin", floats, 7);
  AddUnary<UnaryOf<Plain<UnaryOp::kCos>>>(registrar, "Cos", floats, 7);
  AddUnary<UnaryOf<Plain<UnaryOp::kTanh>>>(registrar, "Tanh", floats);
  AddUnary<UnaryOf<Plain<UnaryOp::kErf>>>(registrar, "Erf", floats, 9);
  AddUnary<UnaryOf<Plain<UnaryOp::kRelu>>>(registrar, "Relu", floats);
  AddUnary<UnaryOf<LeakyRelu>>(registrar, "LeakyRelu", floats);
  AddUnary<UnaryOf<Elu>>(registrar, "Elu", floats);
  AddUnary<UnaryOf<Plain<UnaryOp::kSigmoid>>>(registrar, "Sigmoid", floats);
  AddUnary<UnaryOf<HardSigmoid>>(registrar, "HardSigmoid", floats);
  AddUnary<UnaryOf<Plain<UnaryOp::kHardSwish>>>(registrar, "HardSwish", floats, 14);
  AddUnary<UnaryOf<Plain<UnaryOp::kSoftplus>>>(registrar, "Softplus", floats);
  AddUnary<UnaryOf<Swish>>(registrar, "Swish", floats, 24);
  AddUnary<UnaryOf<QuickGelu>>(registrar, "QuickGelu", floats, 1, kMsDomain);
  AddUnary<Gelu>(registrar, "Gelu", floats, 20);
  AddUnary<Gelu>(registrar, "Gelu", floats, 1, kMsDomain);
  AddUnary<UnaryOf<Plain<UnaryOp::kNot>>>(registrar, "Not", DataType::kBool);

  AddArithmetic<BinaryOp::kAdd>(registrar, "Add", numbers);
  AddArithmetic<BinaryOp::kSub>(registrar, "Sub", numbers);
  AddArithmetic<BinaryOp::kMul>(registrar, "Mul", numbers);
  AddArithmetic<BinaryOp::kDiv>(registrar, "Div", numbers);
  for (const DataType type :
       {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16, DataType::kInt32, DataType::kInt64}) {
    registrar.Add<BinaryOf<BinaryOp::kPow>>(
        KernelDef("Pow").Since(7).Input(0, type).Input(1, type).Output(0, type).MayInplace(0, 0));
  }
  AddVariadic<BinaryOp::kMax>(registrar, "Max", numbers);
  AddVariadic<BinaryOp::kMin>(registrar, "Min", numbers);
  AddVariadic<BinaryOp::kAdd>(registrar, "Sum", floats);
  AddPredicate<BinaryOp::kEqual>(registrar, "Equal", numbers | DataType::kBool);
  AddPredicate<BinaryOp::kLess>(registrar, "Less", numbers);
  AddPredicate<BinaryOp::kGreater>(registrar, "Greater", numbers);
  AddPredicate<BinaryOp::kLessOrEqual>(registrar, "LessOrEqual", numbers, 12);
  AddPredicate<BinaryOp::kGreaterOrEqual>(registrar, "GreaterOrEqual", numbers, 12);
  AddPredicate<BinaryOp::kAnd>(registrar, "And", DataType::kBool);
  AddPredicate<BinaryOp::kOr>(registrar, "Or", DataType::kBool);
  AddPredicate<BinaryOp::kXor>(registrar, "Xor", DataType::kBool);
  for (KernelDef def : {KernelDef("SwiGLU").Since(28), KernelDef("SwiGLU", "lamina")}) {
    def.Input(0, floats).Input(1, floats).Output(0, floats).MayInplace(0, 0);
    registrar.Add<SwiGlu>(std::move(def));
  }

  registrar.Add<Where>(KernelDef("Where")
                           .Since(9)
                           .Input(0, DataType::kBool)
                           .Input(1, kMovedTypes)
                           .Input(2, kMovedTypes)
                           .Output(0, kMovedTypes));
  registrar.Add<Cast>(KernelDef("Cast").Since(6).Input(0, kMovedTypes).Output(0, kMovedTypes));
}

}  // namespace lamina::cuda
