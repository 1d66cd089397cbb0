// ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceProd, ReduceSumSquare, ReduceL1, ReduceL2, ReduceLogSum,
// ReduceLogSumExp.
#include <cmath>
#include <limits>

#include "providers/cpu/elementwise/arithmetic_ops.h"
#include "providers/cpu/kernel_util.h"
#include "providers/cpu/reduction/reduce.h"

namespace lamina {
namespace {

// Each operator: its accumulator, the neutral one, how it takes an element (Step) or another accumulator
// (Merge), and the result. A: type the arithmetic is done in.
struct SumOp {
  template <typename A>
  using Accumulator = A;
  template <typename A>
  static A Init() {
    return A(0);
  }
  template <typename A>
  static A Step(A sum, A x) {
    return AddOp::Apply(sum, x);
  }
  template <typename A>
  static A Merge(A a, A b) {
    return AddOp::Apply(a, b);
  }
  template <typename A>
  static A Finish(A sum, int64_t) {
    return sum;
  }
};
struct MeanOp : SumOp {
  template <typename A>
  static A Finish(A sum, int64_t reduced) {
    if constexpr (std::is_integral_v<A>) {
      return reduced == 0 ? A(0) : static_cast<A>(sum / static_cast<A>(reduced));
    } else {
      return sum / static_cast<A>(reduced);
    }
  }
};
struct SumSquareOp : SumOp {
  template <typename A>
  static A Step(A sum, A x) {
    return AddOp::Apply(sum, MulOp::Apply(x, x));
  }
};
struct L1Op : SumOp {
  template <typename A>
  static A Step(A sum, A x) {
    if constexpr (std::is_unsigned_v<A>) {
      return AddOp::Apply(sum, x);
    } else {
      return AddOp::Apply(sum, x < 0 ? SubOp::Apply(A(0), x) : x);
    }
  }
};
struct L2Op : SumSquareOp {
  template <typename A>
  static A Finish(A sum, int64_t) {
    return std::sqrt(sum);
  }
};
struct LogSumOp : SumOp {
  template <typename A>
  static A Finish(A sum, int64_t) {
    return std::log(sum);
  }
};
struct ProdOp : SumOp {
  template <typename A>
  static A Init() {
    return A(1);
  }
  template <typename A>
  static A Step(A product, A x) {
    return MulOp::Apply(product, x);
  }
  template <typename A>
  static A Merge(A a, A b) {
    return MulOp::Apply(a, b);
  }
};
struct MaximumOp : SumOp {
  template <typename A>
  static A Init() {
    if constexpr (std::is_floating_point_v<A>) return -std::numeric_limits<A>::infinity();
    return std::numeric_limits<A>::lowest();
  }
  template <typename A>
  static A Step(A best, A x) {
    return MaxOp::Apply(best, x);
  }
  template <typename A>
  static A Merge(A a, A b) {
    return MaxOp::Apply(a, b);
  }
};
struct MinimumOp : SumOp {
  template <typename A>
  static A Init() {
    if constexpr (std::is_floating_point_v<A>) return std::numeric_limits<A>::infinity();
    return std::numeric_limits<A>::max();
  }
  template <typename A>
  static A Step(A best, A x) {
    return MinOp::Apply(best, x);
  }
  template <typename A>
  static A Merge(A a, A b) {
    return MinOp::Apply(a, b);
  }
};
// log(sum(e^x)) around the largest element so far, so that nothing overflows.
struct LogSumExpOp {
  template <typename A>
  struct Accumulator {
    A largest;
    A sum;  // of e^(x - largest)
  };
  template <typename A>
  static Accumulator<A> Init() {
    return {-std::numeric_limits<A>::infinity(), A(0)};
  }
  template <typename A>
  static Accumulator<A> Step(Accumulator<A> a, A x) {
    return Merge<A>(a, {x, A(1)});
  }
  template <typename A>
  static Accumulator<A> Merge(Accumulator<A> a, Accumulator<A> b) {
    if (b.largest == a.largest) return {a.largest, a.sum + b.sum};
    if (!(b.largest < a.largest)) std::swap(a, b);  // a is the larger one, or NaN
    return {a.largest, a.sum + b.sum * std::exp(b.largest - a.largest)};
  }
  template <typename A>
  static A Finish(Accumulator<A> a, int64_t) {
    return a.sum == 0 ? -std::numeric_limits<A>::infinity() : a.largest + std::log(a.sum);
  }
};

// T: elements; A: what they are computed in.
template <typename Op, typename T, typename A>
struct Functions {
  using Accumulator = typename Op::template Accumulator<A>;
  static_assert(sizeof(Accumulator) <= Reduction::kMaxAccumulatorBytes);

  static void Init(void* accumulators, int64_t count) {
    std::fill_n(static_cast<Accumulator*>(accumulators), count, Op::template Init<A>());
  }
  static void AddRun(void* accumulator, const void* elements, int64_t count) {
    constexpr int64_t kLanes = 16;  // independent sums: speed, and accuracy of long runs
    const T* x = static_cast<const T*>(elements);
    Accumulator lanes[kLanes];
    std::fill_n(lanes, kLanes, Op::template Init<A>());
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        lanes[lane] = Op::template Step<A>(lanes[lane], static_cast<A>(x[i + lane]));
      }
    }
    for (int64_t lane = 0; i < count; ++i, ++lane) {
      lanes[lane] = Op::template Step<A>(lanes[lane], static_cast<A>(x[i]));
    }
    for (int64_t width = kLanes / 2; width > 0; width /= 2) {
      for (int64_t lane = 0; lane < width; ++lane) {
        lanes[lane] = Op::template Merge<A>(lanes[lane], lanes[lane + width]);
      }
    }
    auto* result = static_cast<Accumulator*>(accumulator);
    *result = Op::template Merge<A>(*result, lanes[0]);
  }
  static void AddRow(void* accumulators, const void* elements, int64_t count) {
    const T* x = static_cast<const T*>(elements);
    auto* sums = static_cast<Accumulator*>(accumulators);
    for (int64_t i = 0; i < count; ++i) sums[i] = Op::template Step<A>(sums[i], static_cast<A>(x[i]));
  }
  static void Merge(void* accumulator, const void* other) {
    auto* result = static_cast<Accumulator*>(accumulator);
    *result = Op::template Merge<A>(*result, *static_cast<const Accumulator*>(other));
  }
  static void Finish(const void* accumulators, void* results, int64_t count, int64_t reduced) {
    const auto* sums = static_cast<const Accumulator*>(accumulators);
    for (int64_t i = 0; i < count; ++i) {
      static_cast<T*>(results)[i] = static_cast<T>(Op::template Finish<A>(sums[i], reduced));
    }
  }
  static constexpr Reduction kReduction{sizeof(Accumulator), Init, AddRun, AddRow, Merge, Finish};
};

// The reduction of Op for `type`. With kFloating integers are computed in double.
template <typename Op, bool kFloating, typename... Ints>
const Reduction* FindReduction(DataType type) {
  if (kHalfAndFloatTypes.Contains(type)) return &Functions<Op, float, float>::kReduction;
  if (type == DataType::kDouble) return &Functions<Op, double, double>::kReduction;
  const Reduction* found = nullptr;
  DispatchType<Ints...>(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    found = &Functions<Op, T, std::conditional_t<kFloating, double, T>>::kReduction;
  });
  return found;
}

class ReduceKernel : public Kernel {
 public:
  // `axes_input_since`: the opset version from which the axes are an input.
  ReduceKernel(const NodeInfo& node, const Reduction* reduction, int axes_input_since)
      : reduction_(reduction),
        axes_from_input_(node.opset_version() >= axes_input_since),
        attribute_(node.Ints("axes").begin(), node.Ints("axes").end()),
        keep_dims_(node.Int("keepdims", 1) != 0),
        noop_with_empty_axes_(node.Int("noop_with_empty_axes", 0) != 0) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    const Shape& shape = input->shape();
    uint32_t mask = 0;
    bool has_axes = false;
    if (!axes_from_input_) {
      LAMINA_ASSIGN_OR_RETURN(mask, AxisMask(attribute_, shape.rank()));
      has_axes = !attribute_.empty();
    } else if (const Tensor* axes_input = context.Input(1)) {
      LAMINA_ASSIGN_OR_RETURN(const IntList axes, ReadInts(*axes_input));
      LAMINA_ASSIGN_OR_RETURN(mask, AxisMask(axes.span(), shape.rank()));
      has_axes = !axes.empty();
    }
    if (!has_axes && !noop_with_empty_axes_) mask = (1u << shape.rank()) - 1;
    Shape out_shape;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if ((mask >> axis & 1u) == 0) {
        out_shape.Append(shape[axis]);
      } else if (keep_dims_) {
        out_shape.Append(1);
      }
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, out_shape));
    if (!out) return Status();
    Reduce(context.threads(), *reduction_, input->type(), input->raw_data(), shape, mask,
           out->mutable_raw_data());
    return Status();
  }

 private:
  const Reduction* reduction_;
  bool axes_from_input_;
  std::vector<int64_t> attribute_;
  bool keep_dims_;
  bool noop_with_empty_axes_;
};

Result<std::unique_ptr<Kernel>> MakeReduce(const NodeInfo& node, const Reduction* reduction) {
  if (!reduction) return UnsupportedError("{} of {}", node.op_type(), node.input_type(0).ToString());
  return std::unique_ptr<Kernel>(
      std::make_unique<ReduceKernel>(node, reduction, node.op_type() == "ReduceSum" ? 13 : 18));
}

template <typename Op, bool kFloating>
Result<std::unique_ptr<Kernel>> CreateArithmetic(const NodeInfo& node) {
  return MakeReduce(
      node, FindReduction<Op, kFloating, int32_t, int64_t, uint32_t, uint64_t>(node.input_type(0).element));
}

template <typename Op>
Result<std::unique_ptr<Kernel>> CreateExtremum(const NodeInfo& node) {
  DataType type = node.input_type(0).element;
  if (type == DataType::kBool) type = DataType::kUint8;  // false < true
  return MakeReduce(
      node,
      FindReduction<Op, false, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>(
          type));
}

}  // namespace

void RegisterReduceKernels(KernelRegistry& registry) {
  const TypeSet arithmetic =
      kFloatTypes | TypeSet{DataType::kInt32, DataType::kInt64, DataType::kUint32, DataType::kUint64};
  const auto add = [&](const char* name, TypeSet types, KernelCreateFunc create) {
    registry.Add(KernelDef(name).Input(0, types).Output(0, types).HostInput(1), create);
  };
  add("ReduceSum", arithmetic, CreateArithmetic<SumOp, false>);
  add("ReduceMean", arithmetic, CreateArithmetic<MeanOp, false>);
  add("ReduceProd", arithmetic, CreateArithmetic<ProdOp, false>);
  add("ReduceSumSquare", arithmetic, CreateArithmetic<SumSquareOp, false>);
  add("ReduceL1", arithmetic, CreateArithmetic<L1Op, false>);
  add("ReduceL2", arithmetic, CreateArithmetic<L2Op, true>);
  add("ReduceLogSum", arithmetic, CreateArithmetic<LogSumOp, true>);
  add("ReduceLogSumExp", arithmetic, CreateArithmetic<LogSumExpOp, true>);
  const TypeSet ordered = kNumericTypes | DataType::kBool;
  add("ReduceMax", ordered, CreateExtremum<MaximumOp>);
  add("ReduceMin", ordered, CreateExtremum<MinimumOp>);
}

}  // namespace lamina
