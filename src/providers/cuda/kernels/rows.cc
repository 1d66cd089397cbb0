// Operators along axes: reductions, Softmax, normalisations.
#include "providers/cuda/kernels/cuda_kernel.h"
#include "providers/cuda/kernels/families.h"
#include "providers/cuda/kernels/loops.h"

namespace lamina::cuda {
namespace {

template <ReduceOp kOp>
class Reduce : public CudaKernel {
 public:
  Reduce(const NodeInfo& node, const KernelLauncher& launcher)
      : CudaKernel(node, launcher),
        axes_(node.Ints("axes").begin(), node.Ints("axes").end()),
        keeps_dims_(node.Int("keepdims", 1) != 0),
        keeps_all_if_empty_(node.Int("noop_with_empty_axes", 0) != 0) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, Required(context, 0));
    std::vector<int64_t> axes = axes_;
    if (const Tensor* input = Optional(context, 1)) {
      LAMINA_ASSIGN_OR_RETURN(axes, HostInts(*input));
    }
    const Shape& shape = x->shape();
    uint32_t mask = 0;
    for (const int64_t named : axes) {
      LAMINA_ASSIGN_OR_RETURN(const int axis, NormalizedAxis(named, shape.rank()));
      mask |= 1u << axis;
    }
    if (axes.empty() && !keeps_all_if_empty_) mask = ~0u;

    const AxisStrides strides = ContiguousStrides(shape);
    Shape out_shape, kept, reduced;
    AxisStrides kept_strides{}, reduced_strides{};
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const bool is_reduced = (mask >> axis & 1u) != 0;
      Shape& dims = is_reduced ? reduced : kept;
      AxisStrides& of_dims = is_reduced ? reduced_strides : kept_strides;
      of_dims[static_cast<size_t>(dims.rank())] = strides[static_cast<size_t>(axis)];
      dims.Append(shape[axis]);
      if (!is_reduced || keeps_dims_) out_shape.Append(is_reduced ? 1 : shape[axis]);
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, out_shape));
    if (!y || y->num_elements() == 0) return Status();
    ReduceArguments arguments{};
    arguments.op = kOp;
    arguments.type = ElementTypeOf(x->type());
    arguments.x = x->raw_data();
    arguments.y = y->mutable_raw_data();
    LAMINA_ASSIGN_OR_RETURN(arguments.kept, MakeLoops(kept, {&kept_strides}));
    LAMINA_ASSIGN_OR_RETURN(arguments.reduced, MakeLoops(reduced, {&reduced_strides}));
    return Launch(context.stream(), "reduce", &KernelApi::reduce, arguments);
  }

 private:
  std::vector<int64_t> axes_;
  bool keeps_dims_;
  bool keeps_all_if_empty_;
};

class Softmax : public CudaKernel {
 public:
  Softmax(const NodeInfo& node, const KernelLauncher& launcher)
      : CudaKernel(node, launcher),
        logarithm_(node.op_type() == "LogSoftmax"),
        joins_axes_(node.opset_version() < 13),
        axis_(node.Int("axis", joins_axes_ ? 1 : -1)) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, Required(context, 0));
    const Shape& shape = x->shape();
    const int rank = shape.rank();
    const auto axis = static_cast<int>(axis_ < 0 ? axis_ + rank : axis_);
    // Before opset 13 an axis equal to the rank is a row for each element.
    if (axis < 0 || axis > rank || (axis == rank && !joins_axes_)) {
      return InvalidArgumentError("axis {} is out of range for an input of shape {}", axis_,
                                  shape.ToString());
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, shape));
    if (!y || y->num_elements() == 0) return Status();
    SoftmaxArguments arguments{};
    arguments.type = ElementTypeOf(x->type());
    arguments.logarithm = logarithm_ ? 1 : 0;
    arguments.x = x->raw_data();
    arguments.y = y->mutable_raw_data();
    arguments.outer = shape.num_elements(0, axis);
    arguments.count = joins_axes_ ? shape.num_elements(axis, rank) : shape[axis];
    arguments.inner = joins_axes_ ? 1 : shape.num_elements(axis + 1, rank);
    return Launch(context.stream(), "softmax", &KernelApi::softmax, arguments);
  }

 private:
  bool logarithm_;
  bool joins_axes_;
  int64_t axis_;
};

enum class NormKind { kLayer, kRms, kSimplified };

template <NormKind kKind>
class LayerNorm : public CudaKernel {
 public:
  LayerNorm(const NodeInfo& node, const KernelLauncher& launcher)
      : CudaKernel(node, launcher), axis_(node.Int("axis", -1)), epsilon_(node.Float("epsilon", 1e-5f)) {}

  static Status Validate(const NodeInfo& node) {
    if (node.Int("stash_type", 1) == 1) return Status();
    return UnsupportedError("computes in float (stash_type 1), found stash_type {}",
                            node.Int("stash_type", 1));
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, Required(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* scale, Required(context, 1));
    const Tensor* shift = kKind == NormKind::kLayer ? Optional(context, 2) : nullptr;
    const Shape& shape = x->shape();
    LAMINA_ASSIGN_OR_RETURN(const int axis, NormalizedAxis(axis_, shape.rank()));
    Shape statistics;
    for (int i = 0; i < shape.rank(); ++i) statistics.Append(i < axis ? shape[i] : 1);
    const int64_t hidden = shape.num_elements(axis, shape.rank());
    for (const Tensor* vector : {scale, shift}) {
      if (vector && vector->num_elements() != hidden) {
        return UnsupportedError("a scale or bias of shape {} for {} normalised elements",
                                vector->shape().ToString(), hidden);
      }
    }
    NormArguments arguments{};
    arguments.type = ElementTypeOf(x->type());
    arguments.scale_type = ElementTypeOf(scale->type());
    arguments.x = x->raw_data();
    arguments.scale = scale->raw_data();
    arguments.shift = shift ? shift->raw_data() : nullptr;
    arguments.rows = shape.num_elements(0, axis);
    arguments.hidden = hidden;
    arguments.epsilon = epsilon_;
    arguments.rms = kKind == NormKind::kLayer ? 0 : 1;
    arguments.round_before_scale = kKind == NormKind::kRms ? 1 : 0;
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, shape));
    if constexpr (kKind == NormKind::kLayer) {
      LAMINA_ASSIGN_OR_RETURN(Tensor * mean, OptionalOutput(context, 1, statistics));
      if (mean) arguments.mean = mean->mutable_data<float>();
    }
    if constexpr (kKind != NormKind::kRms) {
      LAMINA_ASSIGN_OR_RETURN(Tensor * deviation,
                              OptionalOutput(context, kKind == NormKind::kLayer ? 2 : 1, statistics));
      if (deviation) arguments.inverse_deviation = deviation->mutable_data<float>();
    }
    if (!y) return Status();
    arguments.y = y->mutable_raw_data();
    return Launch(context.stream(), "norm", &KernelApi::norm, arguments);
  }

 private:
  int64_t axis_;
  float epsilon_;
};

template <bool kSimplified>
class SkipLayerNorm : public CudaKernel {
  static constexpr int kGamma = 2;
  static constexpr int kBeta = kSimplified ? -1 : 3;
  static constexpr int kBias = kSimplified ? 3 : 4;
  static constexpr int kMean = 1, kInverseDeviation = 2, kSum = 3;

 public:
  SkipLayerNorm(const NodeInfo& node, const KernelLauncher& launcher)
      : CudaKernel(node, launcher), epsilon_(node.Float("epsilon", 1e-12f)) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, Required(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* skip, Required(context, 1));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* gamma, Required(context, kGamma));
    const Tensor* beta = kBeta < 0 ? nullptr : Optional(context, kBeta);
    const Tensor* bias = Optional(context, kBias);
    const Shape& shape = x->shape();
    const int rank = shape.rank();
    if (rank != 2 && rank != 3) {
      return InvalidArgumentError("input must have 2 or 3 dimensions, found shape {}", shape.ToString());
    }
    const int64_t hidden = shape[rank - 1];
    for (const Tensor* vector : {gamma, beta, bias}) {
      if (vector && vector->shape() != Shape{hidden}) {
        return InvalidArgumentError("gamma, beta and bias must have shape [{}], found {}", hidden,
                                    vector->shape().ToString());
      }
    }
    // Rows of skip repeat over the batch: [sequence, hidden] or [1, sequence, hidden].
    if (skip->shape() != shape && skip->shape() != Shape{shape[rank - 2], hidden} &&
        skip->shape() != Shape{1, shape[rank - 2], hidden}) {
      return InvalidArgumentError("skip of shape {} does not broadcast to the input's {}",
                                  skip->shape().ToString(), shape.ToString());
    }
    Shape statistics = shape;
    statistics[rank - 1] = 1;
    NormArguments arguments{};
    arguments.type = arguments.scale_type = ElementTypeOf(x->type());
    arguments.x = x->raw_data();
    arguments.skip = skip->raw_data();
    arguments.bias = bias ? bias->raw_data() : nullptr;
    arguments.scale = gamma->raw_data();
    arguments.shift = beta ? beta->raw_data() : nullptr;
    arguments.rows = shape.num_elements(0, rank - 1);
    arguments.hidden = hidden;
    arguments.skip_rows = hidden == 0 ? 0 : skip->num_elements() / hidden;
    arguments.epsilon = epsilon_;
    arguments.rms = kSimplified ? 1 : 0;
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, shape));
    LAMINA_ASSIGN_OR_RETURN(Tensor * mean, OptionalOutput(context, kMean, statistics));
    LAMINA_ASSIGN_OR_RETURN(Tensor * deviation, OptionalOutput(context, kInverseDeviation, statistics));
    LAMINA_ASSIGN_OR_RETURN(Tensor * sum, OptionalOutput(context, kSum, shape));
    if (!y) return Status();
    arguments.y = y->mutable_raw_data();
    arguments.mean = mean ? mean->mutable_data<float>() : nullptr;
    arguments.inverse_deviation = deviation ? deviation->mutable_data<float>() : nullptr;
    arguments.sum = sum ? sum->mutable_raw_data() : nullptr;
    return Launch(context.stream(), "norm", &KernelApi::norm, arguments);
  }

 private:
  float epsilon_;
};

template <ReduceOp kOp>
void AddReduce(KernelRegistrar& registrar, const char* name, TypeSet types) {
  registrar.Add<Reduce<kOp>>(KernelDef(name).Input(0, types).HostInput(1).Output(0, types));
}

template <NormKind kKind>
void AddNorm(KernelRegistrar& registrar, const char* name, int since) {
  // Scale and bias are of the input's type, or of float beside a 16-bit input. Statistics are floats.
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16}) {
    KernelDef def(name);
    def.Since(since).Input(0, type).Output(0, type).MayInplace(0, 0);
    for (const int i : {1, 2}) def.Input(i, TypeSet{type, DataType::kFloat}).Output(i, DataType::kFloat);
    registrar.Add<LayerNorm<kKind>>(std::move(def));
  }
}

template <bool kSimplified>
void AddSkipNorm(KernelRegistrar& registrar, const char* name) {
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16}) {
    KernelDef def(name, kMsDomain);
    for (int i = 0; i < (kSimplified ? 4 : 5); ++i) def.Input(i, type);
    def.Output(0, type).Output(1, DataType::kFloat).Output(2, DataType::kFloat).Output(3, type);
    registrar.Add<SkipLayerNorm<kSimplified>>(std::move(def));
  }
}

}  // namespace

void RegisterRows(KernelRegistrar& registrar) {
  const TypeSet numbers = kHalfAndFloatTypes | kIndexTypes;
  AddReduce<ReduceOp::kSum>(registrar, "ReduceSum", numbers);
  AddReduce<ReduceOp::kMean>(registrar, "ReduceMean", numbers);
  AddReduce<ReduceOp::kMax>(registrar, "ReduceMax", numbers);
  AddReduce<ReduceOp::kMin>(registrar, "ReduceMin", numbers);
  AddReduce<ReduceOp::kProduct>(registrar, "ReduceProd", numbers);
  AddReduce<ReduceOp::kSumSquare>(registrar, "ReduceSumSquare", numbers);
  AddReduce<ReduceOp::kL2>(registrar, "ReduceL2", kHalfAndFloatTypes);
  for (const char* name : {"Softmax", "LogSoftmax"}) {
    registrar.Add<Softmax>(
        KernelDef(name).Input(0, kHalfAndFloatTypes).Output(0, kHalfAndFloatTypes).MayInplace(0, 0));
  }
  AddNorm<NormKind::kLayer>(registrar, "LayerNormalization", 1);
  AddNorm<NormKind::kRms>(registrar, "RMSNormalization", 23);
  AddNorm<NormKind::kSimplified>(registrar, "SimplifiedLayerNormalization", 1);
  AddSkipNorm<false>(registrar, "SkipLayerNormalization");
  AddSkipNorm<true>(registrar, "SkipSimplifiedLayerNormalization");
}

}  // namespace lamina::cuda
