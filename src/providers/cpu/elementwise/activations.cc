// Activation functions: Relu and its family, Sigmoid, Gelu, Swish, ...
#include "providers/cpu/elementwise/activations.h"

#include <cmath>
#include <limits>
#include <string>

#include "providers/cpu/elementwise/unary.h"
#include "providers/cpu/simd/vec_math.h"

namespace lamina {
namespace {

constexpr int64_t kCheap = 1;
constexpr int64_t kLibraryCall = 32;
constexpr int64_t kVectorised = 4;

template <typename T>
T SigmoidOf(T x) {
  return T(1) / (T(1) + std::exp(-x));
}
// log(1 + e^x) without overflow
template <typename T>
T SoftplusOf(T x) {
  return std::max(x, T(0)) + std::log1p(std::exp(-std::abs(x)));
}

// In the formulas a is alpha and b is beta, of the type of x.
#define LAMINA_ACTIVATION_(name, expression)                     \
  struct name {                                                  \
    template <typename T>                                        \
    static T Apply(T x, const UnaryParams& params) {             \
      [[maybe_unused]] const T a = static_cast<T>(params.alpha); \
      [[maybe_unused]] const T b = static_cast<T>(params.beta);  \
      return static_cast<T>(expression);                         \
    }                                                            \
  };
LAMINA_ACTIVATION_(ReluOp, x < T(0) ? T(0) : x)
LAMINA_ACTIVATION_(LeakyReluOp, x < T(0) ? a * x : x)
LAMINA_ACTIVATION_(ThresholdedReluOp, x > a ? x : T(0))
LAMINA_ACTIVATION_(EluOp, x < T(0) ? a * std::expm1(x) : x)
LAMINA_ACTIVATION_(SeluOp, b*(x > T(0) ? x : a * std::expm1(x)))
LAMINA_ACTIVATION_(CeluOp, std::max(T(0), x) + std::min(T(0), a* std::expm1(x / a)))
LAMINA_ACTIVATION_(SigmoidOp, SigmoidOf(x))
LAMINA_ACTIVATION_(TanhOp, std::tanh(x))
LAMINA_ACTIVATION_(SwishOp, x* SigmoidOf(a* x))
LAMINA_ACTIVATION_(HardSigmoidOp, std::max(T(0), std::min(T(1), a* x + b)))
LAMINA_ACTIVATION_(HardSwishOp, x* std::max(T(0), std::min(T(1), x / T(6) + T(0.5))))
LAMINA_ACTIVATION_(SoftplusOp, SoftplusOf(x))
LAMINA_ACTIVATION_(SoftsignOp, x / (T(1) + std::abs(x)))
LAMINA_ACTIVATION_(MishOp, x* std::tanh(SoftplusOf(x)))
LAMINA_ACTIVATION_(GeluErfOp, T(0.5) * x * (T(1) + std::erf(x * T(0.70710678118654752440))))
LAMINA_ACTIVATION_(GeluTanhOp,
                   T(0.5) * x * (T(1) + std::tanh(T(0.79788456080286535588) * (x + T(0.044715) * x * x * x))))
// alpha: bias, beta: lambd
LAMINA_ACTIVATION_(ShrinkOp, x < -b ? x + a : (x > b ? x - a : T(0)))
LAMINA_ACTIVATION_(AffineOp, a* x + b)
LAMINA_ACTIVATION_(ScaledTanhOp, a* std::tanh(b* x))
LAMINA_ACTIVATION_(ClipOp, std::max(a, std::min(b, x)))  // a: lowest, b: highest
#undef LAMINA_ACTIVATION_

template <typename Op, int64_t kWork>
Result<std::unique_ptr<Kernel>> CreateWithoutParams(const NodeInfo& node) {
  return CreateFloatUnary<Op>(node, UnaryParams(), kWork);
}

template <VecMath::Unary VecMath::*kVector>
void VectorFunction(const void* input, void* output, int64_t count, const UnaryParams&) {
  (ActiveVecMath().*kVector)(static_cast<const float*>(input), static_cast<float*>(output), count);
}

Result<std::unique_ptr<Kernel>> CreateSigmoid(const NodeInfo& node) {
  return CreateFloatUnary(node, VectorFunction<&VecMath::sigmoid>, ApplyUnary<SigmoidOp, double>,
                          UnaryParams(), kVectorised);
}

// Functions of every signed type: an op that is exact for integers.
template <typename Op>
Result<std::unique_ptr<Kernel>> CreateNumeric(const NodeInfo& node, UnaryParams params) {
  UnaryFunction function = nullptr;
  if (DispatchType<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>(
          node.input_type(0).element,
          [&](auto tag) { function = &ApplyUnary<Op, typename decltype(tag)::type>; })) {
    return std::unique_ptr<Kernel>(
        std::make_unique<UnaryKernel>(function, params, /*through_float=*/false, kCheap));
  }
  return CreateFloatUnary<Op>(node, params, kCheap);
}

Result<std::unique_ptr<Kernel>> CreateRelu(const NodeInfo& node) {
  return CreateNumeric<ReluOp>(node, UnaryParams());
}

// For integers the thresholds are compared and the bias added in floating point.
struct IntegerShrinkOp {
  template <typename T>
  static T Apply(T x, const UnaryParams& params) {
    const double value = static_cast<double>(x);
    if (value < -static_cast<double>(params.beta)) return static_cast<T>(value + params.alpha);
    if (value > static_cast<double>(params.beta)) return static_cast<T>(value - params.alpha);
    return 0;
  }
};

Result<std::unique_ptr<Kernel>> CreateShrink(const NodeInfo& node) {
  const UnaryParams params{node.Float("bias", 0), node.Float("lambd", 0.5f)};
  if (kIntTypes.Contains(node.input_type(0).element)) return CreateNumeric<IntegerShrinkOp>(node, params);
  return CreateFloatUnary<ShrinkOp>(node, params, kCheap);
}

Result<std::unique_ptr<Kernel>> CreateLeakyRelu(const NodeInfo& node) {
  return CreateFloatUnary<LeakyReluOp>(node, {node.Float("alpha", 0.01f)}, kCheap);
}

Result<std::unique_ptr<Kernel>> CreateThresholdedRelu(const NodeInfo& node) {
  return CreateFloatUnary<ThresholdedReluOp>(node, {node.Float("alpha", 1)}, kCheap);
}

Result<std::unique_ptr<Kernel>> CreateElu(const NodeInfo& node) {
  return CreateFloatUnary<EluOp>(node, {node.Float("alpha", 1)}, kLibraryCall);
}

Result<std::unique_ptr<Kernel>> CreateSelu(const NodeInfo& node) {
  const bool first_version = node.opset_version() < 6;
  return CreateFloatUnary<SeluOp>(node,
                                  {node.Float("alpha", first_version ? 1.6732f : 1.67326319217681884765625f),
                                   node.Float("gamma", first_version ? 1.0507f : 1.05070102214813232421875f)},
                                  kLibraryCall);
}

Result<std::unique_ptr<Kernel>> CreateCelu(const NodeInfo& node) {
  return CreateFloatUnary<CeluOp>(node, {node.Float("alpha", 1)}, kLibraryCall);
}

Result<std::unique_ptr<Kernel>> CreateHardSigmoid(const NodeInfo& node) {
  return CreateFloatUnary<HardSigmoidOp>(node, {node.Float("alpha", 0.2f), node.Float("beta", 0.5f)}, kCheap);
}

Result<std::unique_ptr<Kernel>> CreateSwish(const NodeInfo& node) {
  const float alpha = node.Float("alpha", 1);
  constexpr auto kFloatSwish = [](const void* input, void* output, int64_t count, const UnaryParams& params) {
    ActiveVecMath().quick_gelu(static_cast<const float*>(input), static_cast<float*>(output), count,
                               params.alpha);
  };
  return CreateFloatUnary(node, kFloatSwish, ApplyUnary<SwishOp, double>, {alpha}, kVectorised);
}

Result<std::unique_ptr<Kernel>> CreateQuickGelu(const NodeInfo& node) {
  constexpr auto kFloat = [](const void* input, void* output, int64_t count, const UnaryParams& params) {
    ActiveVecMath().quick_gelu(static_cast<const float*>(input), static_cast<float*>(output), count,
                               params.alpha);
  };
  return CreateFloatUnary(node, kFloat, ApplyUnary<SwishOp, double>, {node.Float("alpha", 1.702f)},
                          kVectorised);
}

Result<std::unique_ptr<Kernel>> CreateGelu(const NodeInfo& node) {
  const std::string_view approximate = node.String("approximate", "none");
  if (approximate == "tanh") {
    return CreateFloatUnary(node, VectorFunction<&VecMath::gelu_tanh>, ApplyUnary<GeluTanhOp, double>,
                            UnaryParams(), kVectorised);
  }
  if (approximate != "none") return InvalidModelError("Gelu: unknown approximation '{}'", approximate);
  return CreateFloatUnary(node, VectorFunction<&VecMath::gelu_erf>, ApplyUnary<GeluErfOp, double>,
                          UnaryParams(), kVectorised);
}

// com.microsoft FastGelu and BiasGelu: Gelu of x + bias, where bias [hidden] is optional for FastGelu.
class BiasedGelu : public Kernel {
 public:
  explicit BiasedGelu(const NodeInfo& node)
      : function_(node.op_type() == "FastGelu" ? ActiveVecMath().gelu_tanh : ActiveVecMath().gelu_erf) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    const Tensor* bias = context.Input(1);
    const Shape& shape = x->shape();
    const int64_t hidden = shape.rank() == 0 ? 1 : shape[shape.rank() - 1];
    if (bias && (bias->type() != x->type() || bias->num_elements() != hidden)) {
      return InvalidArgumentError("bias {} does not match the last axis of input {}",
                                  bias->shape().ToString(), shape.ToString());
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, shape));
    if (!out || x->num_elements() == 0) return Status();
    const DataType type = x->type();
    const int64_t bytes = ElementBytes(type);
    const auto* source = static_cast<const std::byte*>(x->raw_data());
    auto* target = static_cast<std::byte*>(out->mutable_raw_data());
    context.threads().ParallelFor(
        x->num_elements(), GrainOf(kVectorised), [&](int64_t begin, int64_t end, int) {
          constexpr int64_t kTile = 512;
          float tile[kTile];
          float bias_tile[kTile];
          for (int64_t done = begin, count = 0; done < end; done += count) {
            const int64_t column = done % hidden;
            count = std::min({kTile, end - done, hidden - column});
            ConvertToFloat(type, source + done * bytes, tile, count);
            if (bias) {
              ConvertToFloat(type, static_cast<const std::byte*>(bias->raw_data()) + column * bytes,
                             bias_tile, count);
              for (int64_t i = 0; i < count; ++i) tile[i] += bias_tile[i];
            }
            function_(tile, tile, count);
            ConvertFromFloat(type, tile, target + done * bytes, count);
          }
        });
    return Status();
  }

 private:
  VecMath::Unary function_;
};

}  // namespace

Result<Activation> FindActivation(std::string_view name, std::span<const float> params) {
  std::string lower(name);
  for (char& letter : lower)
    letter = letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  const auto make = [&](UnaryFunction of_float, UnaryFunction of_double, float alpha, float beta) {
    return Activation{
        of_float, of_double, {!params.empty() ? params[0] : alpha, params.size() > 1 ? params[1] : beta}};
  };
  const auto of = [&]<typename Op>(Op, float alpha, float beta) {
    return make(ApplyUnary<Op, float>, ApplyUnary<Op, double>, alpha, beta);
  };
  if (lower == "relu") return of(ReluOp(), 0, 0);
  if (lower == "tanh") return make(VectorFunction<&VecMath::tanh>, ApplyUnary<TanhOp, double>, 0, 0);
  if (lower == "sigmoid") return make(VectorFunction<&VecMath::sigmoid>, ApplyUnary<SigmoidOp, double>, 0, 0);
  if (lower == "affine") return of(AffineOp(), 1, 0);
  if (lower == "leakyrelu") return of(LeakyReluOp(), 0.01f, 0);
  if (lower == "thresholdedrelu") return of(ThresholdedReluOp(), 1, 0);
  if (lower == "scaledtanh") return of(ScaledTanhOp(), 1, 1);
  if (lower == "hardsigmoid") return of(HardSigmoidOp(), 0.2f, 0.5f);
  if (lower == "hardswish") return of(HardSwishOp(), 0, 0);
  if (lower == "elu") return of(EluOp(), 1, 0);
  if (lower == "celu") return of(CeluOp(), 1, 0);
  if (lower == "selu") {
    return of(SeluOp(), 1.67326319217681884765625f, 1.05070102214813232421875f);
  }
  if (lower == "softsign") return of(SoftsignOp(), 0, 0);
  if (lower == "softplus") return of(SoftplusOp(), 0, 0);
  if (lower == "clip") {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    return of(ClipOp(), -kInfinity, kInfinity);
  }
  return InvalidModelError("there is no activation '{}'", name);
}

Result<std::optional<Activation>> FusedActivation(const NodeInfo& node) {
  const std::string_view name = node.String("activation", "");
  if (name.empty()) return std::optional<Activation>();
  LAMINA_ASSIGN_OR_RETURN(Activation activation, FindActivation(name, node.Floats("activation_params")));
  activation.params.alpha = node.Float("activation_alpha", activation.params.alpha);
  activation.params.beta =
      node.Float("activation_gamma", node.Float("activation_beta", activation.params.beta));
  return std::optional<Activation>(activation);
}

void RegisterActivationKernels(KernelRegistry& registry) {
  const auto add = [&](const char* name, int since, TypeSet types, const KernelCreateFunc& create,
                       std::string_view domain = "") {
    registry.Add(KernelDef(name, domain).Since(since).Input(0, types).Output(0, types).MayInplace(0, 0),
                 create);
  };
  add("Relu", 1, kFloatTypes | kSignedIntTypes, CreateRelu);
  add("LeakyRelu", 1, kFloatTypes, CreateLeakyRelu);
  add("ThresholdedRelu", 1, kFloatTypes, CreateThresholdedRelu);
  add("Elu", 1, kFloatTypes, CreateElu);
  add("Selu", 1, kFloatTypes, CreateSelu);
  add("Celu", 12, kFloatTypes, CreateCelu);
  add("Sigmoid", 1, kFloatTypes, CreateSigmoid);
  add("Swish", 24, kFloatTypes, CreateSwish);
  add("HardSigmoid", 1, kFloatTypes, CreateHardSigmoid);
  add("HardSwish", 14, kFloatTypes, CreateWithoutParams<HardSwishOp, kCheap>);
  add("Softplus", 1, kFloatTypes, CreateWithoutParams<SoftplusOp, kLibraryCall>);
  add("Softsign", 1, kFloatTypes, CreateWithoutParams<SoftsignOp, kCheap>);
  add("Mish", 18, kFloatTypes, CreateWithoutParams<MishOp, 2 * kLibraryCall>);
  add("Shrink", 9, kNumericTypes, CreateShrink);
  add("Gelu", 20, kFloatTypes, CreateGelu);
  add("Gelu", 1, kFloatTypes, CreateGelu, kMsDomain);
  add("QuickGelu", 1, kFloatTypes, CreateQuickGelu, kMsDomain);
  for (const char* name : {"FastGelu", "BiasGelu"}) {
    registry.Add(KernelDef(name, kMsDomain)
                     .Input(0, kHalfAndFloatTypes)
                     .Input(1, kHalfAndFloatTypes)
                     .Output(0, kHalfAndFloatTypes)
                     .MayInplace(0, 0),
                 CreateKernel<BiasedGelu>);
  }
}

}  // namespace lamina
