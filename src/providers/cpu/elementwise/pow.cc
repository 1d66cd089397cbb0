// Pow: base and exponent may be of different types (since opset 12); the result has the base's.
#include <cmath>

#include "providers/cpu/elementwise/arithmetic_ops.h"
#include "providers/cpu/elementwise/binary.h"
#include "providers/cpu/tensor/element_convert.h"

namespace lamina {
namespace {

constexpr int64_t kTile = 256;

// `count` elements of `type` from `source` as C.
template <typename C>
void ReadAs(DataType type, const std::byte* source, C* target, int64_t count) {
  ConvertElements(type, source, DataTypeOf<C>, target, 0, count);
}

// By squaring; wraps around. A negative exponent gives the truncated reciprocal.
int64_t IntegerPower(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 1) return 1;
    if (base == -1) return exponent % 2 == 0 ? 1 : -1;
    return 0;
  }
  int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = MulOp::Apply(result, base);
    base = MulOp::Apply(base, base);
  }
  return result;
}

template <typename C>
void PowTile(const C* base, const C* exponent, C* result, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_integral_v<C>) {
      result[i] = IntegerPower(base[i], exponent[i]);
    } else {
      result[i] = std::pow(base[i], exponent[i]);
    }
  }
}

// One exponent for all: the powers that models use are cheap.
template <typename C>
void PowTile(const C* base, C exponent, C* result, int64_t count) {
  if constexpr (std::is_floating_point_v<C>) {
    if (exponent == C(2)) {
      for (int64_t i = 0; i < count; ++i) result[i] = base[i] * base[i];
      return;
    }
    if (exponent == C(3)) {
      for (int64_t i = 0; i < count; ++i) result[i] = base[i] * base[i] * base[i];
      return;
    }
    if (exponent == C(0.5)) {  // pow(-0, 0.5) is +0, pow(-inf, 0.5) is +inf
      for (int64_t i = 0; i < count; ++i)
        result[i] = std::isinf(base[i]) ? std::abs(base[i]) : std::sqrt(base[i] + C(0));
      return;
    }
  }
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_integral_v<C>) {
      result[i] = IntegerPower(base[i], exponent);
    } else {
      result[i] = std::pow(base[i], exponent);
    }
  }
}

// C: the type the power is computed in; T: the type of base and result.
template <typename C, typename T>
void PowRow(const BroadcastRow& row, DataType exponent_type) {
  const int64_t exponent_bytes = ElementBytes(exponent_type);
  C base[kTile];
  C exponent[kTile];
  C result[kTile];
  for (int64_t done = 0; done < row.count; done += kTile) {
    const int64_t count = std::min(kTile, row.count - done);
    if (row.repeated[0]) {
      ReadAs<C>(DataTypeOf<T>, row.inputs[0], base, 1);
      std::fill_n(base, count, base[0]);
    } else {
      ReadAs<C>(DataTypeOf<T>, row.inputs[0] + done * static_cast<int64_t>(sizeof(T)), base, count);
    }
    if (row.repeated[1]) {
      ReadAs<C>(exponent_type, row.inputs[1], exponent, 1);
      PowTile(base, exponent[0], result, count);
    } else {
      ReadAs<C>(exponent_type, row.inputs[1] + done * exponent_bytes, exponent, count);
      PowTile(base, exponent, result, count);
    }
    T* out = row.out<T>() + done;
    for (int64_t i = 0; i < count; ++i) {
      if constexpr (kIsHalf<T>) {
        out[i] = T(result[i]);
      } else {
        out[i] = ConvertNumber<T>(result[i]);
      }
    }
  }
}

class Pow : public Kernel {
 public:
  explicit Pow(const NodeInfo& node)
      : legacy_(node.opset_version() < 7),
        broadcast_(node.Int("broadcast", 0) != 0),
        has_axis_(node.FindAttribute("axis") != nullptr),
        axis_(node.Int("axis", 0)) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* base, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* exponent, RequireInput(context, 1));
    Shape exponent_shape = exponent->shape();
    if (legacy_) {
      LAMINA_ASSIGN_OR_RETURN(
          exponent_shape, AlignLegacyOperand(base->shape(), exponent_shape, broadcast_, axis_, has_axis_));
    }
    LAMINA_ASSIGN_OR_RETURN(const Shape shape, BroadcastShapes(base->shape(), exponent_shape));
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, shape));
    if (!out) return Status();
    const DataType exponent_type = exponent->type();
    const BroadcastOperand operands[] = {{base->raw_data(), base->shape(), ElementBytes(base->type())},
                                         {exponent->raw_data(), exponent_shape, ElementBytes(exponent_type)}};
    const bool integer_exponent = kIntTypes.Contains(exponent_type);
    const auto run = [&](auto row) {
      ForEachBroadcastRow(context.threads(), operands, shape, out->mutable_raw_data(),
                          ElementBytes(base->type()), /*work=*/16,
                          [&](const BroadcastRow& part) { row(part, exponent_type); });
    };
    switch (base->type()) {
      case DataType::kFloat:
        run(PowRow<float, float>);
        break;
      case DataType::kDouble:
        run(PowRow<double, double>);
        break;
      case DataType::kFloat16:
        run(PowRow<float, Float16>);
        break;
      case DataType::kBfloat16:
        run(PowRow<float, Bfloat16>);
        break;
      case DataType::kInt32:
        integer_exponent ? run(PowRow<int64_t, int32_t>) : run(PowRow<double, int32_t>);
        break;
      default:
        integer_exponent ? run(PowRow<int64_t, int64_t>) : run(PowRow<double, int64_t>);
        break;
    }
    return Status();
  }

 private:
  bool legacy_;
  bool broadcast_;
  bool has_axis_;
  int64_t axis_;
};

}  // namespace

void RegisterPowKernels(KernelRegistry& registry) {
  const TypeSet bases = kFloatTypes | kIndexTypes;
  registry.Add(KernelDef("Pow").Input(0, bases).Input(1, kNumericTypes).Output(0, bases).MayInplace(0, 0),
               CreateKernel<Pow>);
}

}  // namespace lamina
