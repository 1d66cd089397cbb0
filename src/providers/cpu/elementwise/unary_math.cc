// Mathematical functions of one element: Abs, Neg, Sign, rounding, exponentials, trigonometry, IsNaN, IsInf.
#include <cmath>
#include <utility>

#include "providers/cpu/elementwise/arithmetic_ops.h"
#include "providers/cpu/elementwise/unary.h"
#include "providers/cpu/simd/vec_math.h"

namespace lamina {
namespace {

constexpr int64_t kCheap = 1;
constexpr int64_t kLibraryCall = 32;

struct AbsOp {
  template <typename T>
  static T Apply(T x, const UnaryParams&) {
    if constexpr (std::is_unsigned_v<T>) {
      return x;
    } else if constexpr (std::is_integral_v<T>) {
      return x < 0 ? SubOp::Apply<T>(0, x) : x;  // the smallest value stays itself
    } else {
      return std::abs(x);
    }
  }
};
struct NegOp {
  template <typename T>
  static T Apply(T x, const UnaryParams&) {
    if constexpr (std::is_integral_v<T>) {
      return SubOp::Apply<T>(0, x);
    } else {
      return -x;
    }
  }
};
struct SignOp {
  template <typename T>
  static T Apply(T x, const UnaryParams&) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(x)) return x;
    }
    return static_cast<T>((x > 0) - (x < 0));
  }
};
struct ReciprocalOp {
  template <typename T>
  static T Apply(T x, const UnaryParams&) {
    return T(1) / x;
  }
};
struct RoundOp {  // halves to even
  template <typename T>
  static T Apply(T x, const UnaryParams&) {
    return std::nearbyint(x);
  }
};

#define LAMINA_UNARY_OP_(name, expression)    \
  struct name {                               \
    template <typename T>                     \
    static T Apply(T x, const UnaryParams&) { \
      return expression;                      \
    }                                         \
  };
LAMINA_UNARY_OP_(CeilOp, std::ceil(x))
LAMINA_UNARY_OP_(FloorOp, std::floor(x))
LAMINA_UNARY_OP_(SqrtOp, std::sqrt(x))
LAMINA_UNARY_OP_(ExpOp, std::exp(x))
LAMINA_UNARY_OP_(LogOp, std::log(x))
LAMINA_UNARY_OP_(SinOp, std::sin(x))
LAMINA_UNARY_OP_(CosOp, std::cos(x))
LAMINA_UNARY_OP_(TanOp, std::tan(x))
LAMINA_UNARY_OP_(AsinOp, std::asin(x))
LAMINA_UNARY_OP_(AcosOp, std::acos(x))
LAMINA_UNARY_OP_(AtanOp, std::atan(x))
LAMINA_UNARY_OP_(SinhOp, std::sinh(x))
LAMINA_UNARY_OP_(CoshOp, std::cosh(x))
LAMINA_UNARY_OP_(AsinhOp, std::asinh(x))
LAMINA_UNARY_OP_(AcoshOp, std::acosh(x))
LAMINA_UNARY_OP_(AtanhOp, std::atanh(x))
LAMINA_UNARY_OP_(TanhOp, std::tanh(x))
LAMINA_UNARY_OP_(ErfOp, std::erf(x))
#undef LAMINA_UNARY_OP_

template <typename Op, int64_t kWork>
Result<std::unique_ptr<Kernel>> CreateMath(const NodeInfo& node) {
  return CreateFloatUnary<Op>(node, UnaryParams(), kWork);
}

// Functions that have a vectorised form for float.
template <typename Op, VecMath::Unary VecMath::*kVector>
Result<std::unique_ptr<Kernel>> CreateVectorMath(const NodeInfo& node) {
  constexpr auto kFloatFunction = [](const void* input, void* output, int64_t count, const UnaryParams&) {
    (ActiveVecMath().*kVector)(static_cast<const float*>(input), static_cast<float*>(output), count);
  };
  return CreateFloatUnary(node, kFloatFunction, &ApplyUnary<Op, double>, UnaryParams(), /*work=*/4);
}

// Functions of every numeric type.
template <typename Op>
Result<std::unique_ptr<Kernel>> CreateNumeric(const NodeInfo& node) {
  UnaryFunction function = nullptr;
  if (DispatchType<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>(
          node.input_type(0).element,
          [&](auto tag) { function = &ApplyUnary<Op, typename decltype(tag)::type>; })) {
    return std::unique_ptr<Kernel>(
        std::make_unique<UnaryKernel>(function, UnaryParams(), /*through_float=*/false, kCheap));
  }
  return CreateFloatUnary<Op>(node, UnaryParams(), kCheap);
}

// IsNaN and IsInf look at bits alone, so that one loop serves all types of a width.
class FloatClassKernel : public Kernel {
 public:
  explicit FloatClassKernel(const NodeInfo& node)
      : nan_(node.op_type() == "IsNaN"),
        negative_(node.Int("detect_negative", 1) != 0),
        positive_(node.Int("detect_positive", 1) != 0) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, input->shape()));
    if (!out) return Status();
    bool* result = out->mutable_data<bool>();
    ThreadPool& threads = context.threads();
    const int64_t count = input->num_elements();
    switch (input->type()) {
      case DataType::kFloat:
        Classify<uint32_t>(threads, input->data<uint32_t>(), result, count, 0x7f800000u);
        break;
      case DataType::kDouble:
        Classify<uint64_t>(threads, input->data<uint64_t>(), result, count, 0x7ff0000000000000u);
        break;
      case DataType::kFloat16:
        Classify<uint16_t>(threads, input->data<uint16_t>(), result, count, 0x7c00);
        break;
      case DataType::kBfloat16:
        Classify<uint16_t>(threads, input->data<uint16_t>(), result, count, 0x7f80);
        break;
      case DataType::kFloat8E5M2:
        Classify<uint8_t>(threads, input->data<uint8_t>(), result, count, 0x7c);
        break;
      case DataType::kFloat8E4M3Fn:  // no infinity: 0x7f is NaN
        for (int64_t i = 0; i < count; ++i) result[i] = nan_ && (input->data<uint8_t>()[i] & 0x7f) == 0x7f;
        break;
      default:  // the FNUZ types: no infinity, one NaN
        for (int64_t i = 0; i < count; ++i) result[i] = nan_ && input->data<uint8_t>()[i] == 0x80;
        break;
    }
    return Status();
  }

 private:
  template <typename Bits>
  void Classify(ThreadPool& threads, const Bits* bits, bool* result, int64_t count, Bits infinity) const {
    constexpr auto kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
    // Patterns that count as infinite; NaN's where an infinity is not asked for.
    const Bits positive = positive_ ? infinity : static_cast<Bits>(~kSign);
    const Bits negative = static_cast<Bits>(kSign | (negative_ ? infinity : static_cast<Bits>(~kSign)));
    threads.ParallelFor(count, GrainOf(1), [&](int64_t begin, int64_t end, int) {
      if (nan_) {
        for (int64_t i = begin; i < end; ++i) result[i] = static_cast<Bits>(bits[i] & ~kSign) > infinity;
      } else {
        for (int64_t i = begin; i < end; ++i) {
          const bool is_infinite = static_cast<Bits>(bits[i] & ~kSign) == infinity;
          result[i] = is_infinite & ((bits[i] == positive) | (bits[i] == negative));
        }
      }
    });
  }

  bool nan_;
  bool negative_;
  bool positive_;
};

}  // namespace

void RegisterUnaryMathKernels(KernelRegistry& registry) {
  const auto add = [&](const char* name, int since, TypeSet types, KernelCreateFunc create) {
    registry.Add(KernelDef(name).Since(since).Input(0, types).Output(0, types).MayInplace(0, 0), create);
  };
  add("Abs", 1, kNumericTypes, CreateNumeric<AbsOp>);
  add("Neg", 1, kFloatTypes | kSignedIntTypes, CreateNumeric<NegOp>);
  add("Sign", 9, kNumericTypes, CreateNumeric<SignOp>);
  add("Ceil", 1, kFloatTypes, CreateMath<CeilOp, kCheap>);
  add("Floor", 1, kFloatTypes, CreateMath<FloorOp, kCheap>);
  add("Round", 11, kFloatTypes, CreateMath<RoundOp, kCheap>);
  add("Reciprocal", 1, kFloatTypes, CreateMath<ReciprocalOp, kCheap>);
  add("Sqrt", 1, kFloatTypes, CreateMath<SqrtOp, kCheap>);
  add("Exp", 1, kFloatTypes, CreateVectorMath<ExpOp, &VecMath::exp>);
  add("Tanh", 1, kFloatTypes, CreateVectorMath<TanhOp, &VecMath::tanh>);
  add("Erf", 9, kFloatTypes, CreateVectorMath<ErfOp, &VecMath::erf>);
  add("Log", 1, kFloatTypes, CreateMath<LogOp, kLibraryCall>);
  add("Sin", 7, kFloatTypes, CreateMath<SinOp, kLibraryCall>);
  add("Cos", 7, kFloatTypes, CreateMath<CosOp, kLibraryCall>);
  add("Tan", 7, kFloatTypes, CreateMath<TanOp, kLibraryCall>);
  add("Asin", 7, kFloatTypes, CreateMath<AsinOp, kLibraryCall>);
  add("Acos", 7, kFloatTypes, CreateMath<AcosOp, kLibraryCall>);
  add("Atan", 7, kFloatTypes, CreateMath<AtanOp, kLibraryCall>);
  add("Sinh", 9, kFloatTypes, CreateMath<SinhOp, kLibraryCall>);
  add("Cosh", 9, kFloatTypes, CreateMath<CoshOp, kLibraryCall>);
  add("Asinh", 9, kFloatTypes, CreateMath<AsinhOp, kLibraryCall>);
  add("Acosh", 9, kFloatTypes, CreateMath<AcoshOp, kLibraryCall>);
  add("Atanh", 9, kFloatTypes, CreateMath<AtanhOp, kLibraryCall>);
  const TypeSet fp8{DataType::kFloat8E4M3Fn, DataType::kFloat8E4M3Fnuz, DataType::kFloat8E5M2,
                    DataType::kFloat8E5M2Fnuz};
  for (const auto& [name, since] : {std::pair{"IsNaN", 9}, std::pair{"IsInf", 10}}) {
    registry.Add(KernelDef(name).Since(since).Input(0, kFloatTypes | fp8).Output(0, DataType::kBool),
                 CreateKernel<FloatClassKernel>);
  }
}

}  // namespace lamina
