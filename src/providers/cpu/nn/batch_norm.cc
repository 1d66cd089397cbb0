// BatchNormalization, InstanceNormalization, GroupNormalization: x scale' + bias' with a pair for each
// channel.
#include <cmath>

#include "providers/cpu/kernel_util.h"
#include "providers/cpu/tensor/element_convert.h"

namespace lamina {
namespace {

// Element `index` of a floating-point tensor of any width.
double At(const Tensor& tensor, int64_t index) {
  if (tensor.type() == DataType::kDouble) return tensor.data<double>()[index];
  float value = 0;
  ReadFloats(tensor.type(), tensor.raw_data(), index, 1, &value);
  return value;
}

void Set(Tensor& tensor, int64_t index, double value) {
  if (tensor.type() == DataType::kDouble) {
    tensor.mutable_data<double>()[index] = value;
    return;
  }
  const float narrow = static_cast<float>(value);
  WriteFloats(tensor.type(), &narrow, tensor.mutable_raw_data(), index, 1);
}

struct Moments {
  double mean = 0;
  double variance = 0;  // of the population
};

// Of `runs` runs of `length` elements that begin `stride` apart. Two passes, so that nothing cancels.
template <typename T>
Moments MomentsOf(const T* x, int64_t runs, int64_t stride, int64_t length) {
  const auto sum_of = [&](auto term) {
    double total = 0;
    for (int64_t run = 0; run < runs; ++run) {
      for (int64_t i = 0; i < length; ++i) {
        total += term(static_cast<double>(static_cast<ComputeType<T>>(x[run * stride + i])));
      }
    }
    return total / static_cast<double>(runs * length);
  };
  Moments moments;
  moments.mean = sum_of([](double value) { return value; });
  moments.variance = sum_of([&](double value) { return (value - moments.mean) * (value - moments.mean); });
  return moments;
}

// y = x * scale + offset
template <typename T>
void ScaleRun(const T* x, T* y, int64_t count, double scale, double offset) {
  using C = ComputeType<T>;
  const C a = static_cast<C>(scale);
  const C b = static_cast<C>(offset);
  for (int64_t i = 0; i < count; ++i) y[i] = static_cast<T>(static_cast<C>(x[i]) * a + b);
}

class BatchNormalization : public Kernel {
 public:
  explicit BatchNormalization(const NodeInfo& node)
      : epsilon_(node.Float("epsilon", 1e-5f)),
        momentum_(node.Float("momentum", 0.9f)),
        spatial_(node.Int("spatial", 1) != 0),
        training_(node.Int("training_mode", 0) != 0) {}
  static Status Validate(const NodeInfo& node) {
    const bool legacy_training = node.opset_version() < 14 && node.num_outputs() > 1;
    if (node.opset_version() < 7 && node.Int("is_test", 0) == 0 && legacy_training) {
      return UnsupportedError("training of BatchNormalization before opset 14");
    }
    return Status();
  }

  Status Compute(KernelContext& context) const override {
    const Tensor* inputs[5] = {};
    for (int i = 0; i < 5; ++i) LAMINA_RETURN_IF_ERROR(Require(context, i, &inputs[i]));
    const Tensor& x = *inputs[0];
    const Shape& shape = x.shape();
    if (shape.rank() < 2)
      return InvalidArgumentError("[batch, channels, ...] expected, found {}", shape.ToString());
    const int64_t channels = spatial_ ? shape[1] : shape.num_elements(1, shape.rank());
    const int64_t inner = spatial_ ? shape.num_elements(2, shape.rank()) : 1;
    for (int i = 1; i < 5; ++i) {
      if (inputs[i]->num_elements() != channels) {
        return InvalidArgumentError("input {} has {} elements for {} channels", i, inputs[i]->num_elements(),
                                    channels);
      }
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, shape));
    Tensor* running[2] = {};
    for (int i = 0; i < 2 && training_; ++i) {
      LAMINA_ASSIGN_OR_RETURN(running[i], context.Output(1 + i, inputs[3]->shape()));
    }
    if (!y || y->num_elements() == 0) return Status();
    DispatchType<float, double, Float16, Bfloat16>(x.type(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T* source = x.data<T>();
      T* target = y->mutable_data<T>();
      context.threads().ParallelFor(
          channels, GrainOf(shape[0] * inner * (training_ ? 6 : 1)), [&](int64_t begin, int64_t end, int) {
            for (int64_t c = begin; c < end; ++c) {
              Moments moments{At(*inputs[3], c), At(*inputs[4], c)};
              if (training_) {
                const Moments of_batch = MomentsOf(source + c * inner, shape[0], channels * inner, inner);
                const double keep = momentum_;
                if (running[0]) Set(*running[0], c, moments.mean * keep + of_batch.mean * (1 - keep));
                if (running[1]) Set(*running[1], c, moments.variance * keep + of_batch.variance * (1 - keep));
                moments = of_batch;
              }
              const double scale = At(*inputs[1], c) / std::sqrt(moments.variance + epsilon_);
              const double offset = At(*inputs[2], c) - moments.mean * scale;
              for (int64_t n = 0; n < shape[0]; ++n) {
                const int64_t first = (n * channels + c) * inner;
                ScaleRun(source + first, target + first, inner, scale, offset);
              }
            }
          });
    });
    return Status();
  }

 private:
  static Status Require(const KernelContext& context, int index, const Tensor** tensor) {
    LAMINA_ASSIGN_OR_RETURN(*tensor, RequireInput(context, index));
    return Status();
  }

  double epsilon_;
  double momentum_;
  bool spatial_;
  bool training_;
};

// Instance normalisation is group normalisation with one channel in a group. GroupNormalization has scale and
// bias for each group before opset 21, then for each channel.
class GroupNormalization : public Kernel {
 public:
  explicit GroupNormalization(const NodeInfo& node)
      : instance_(node.op_type() == "InstanceNormalization"),
        groups_(node.Int("num_groups", 1)),
        epsilon_(node.Float("epsilon", 1e-5f)) {}
  static Status Validate(const NodeInfo& node) {
    return node.Int("num_groups", 1) < 1 ? InvalidModelError("num_groups must be positive") : Status();
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* scale, RequireInput(context, 1));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* bias, RequireInput(context, 2));
    const Shape& shape = x->shape();
    if (shape.rank() < 2)
      return InvalidArgumentError("[batch, channels, ...] expected, found {}", shape.ToString());
    const int64_t channels = shape[1];
    const int64_t groups = instance_ ? std::max<int64_t>(1, channels) : groups_;
    const int64_t pairs = scale->num_elements();
    if (channels % groups != 0 || (pairs != channels && pairs != groups) || bias->num_elements() != pairs) {
      return InvalidArgumentError("scale {} and bias {} do not fit {} channels in {} groups",
                                  scale->shape().ToString(), bias->shape().ToString(), channels, groups);
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, shape));
    if (!y || y->num_elements() == 0) return Status();
    const int64_t inner = shape.num_elements(2, shape.rank());
    const int64_t group_channels = channels / groups;
    DispatchType<float, double, Float16, Bfloat16>(x->type(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T* source = x->data<T>();
      T* target = y->mutable_data<T>();
      context.threads().ParallelFor(
          shape[0] * groups, GrainOf(6 * group_channels * inner), [&](int64_t begin, int64_t end, int) {
            for (int64_t unit = begin; unit < end; ++unit) {
              const int64_t base = unit * group_channels * inner;
              const Moments moments = MomentsOf(source + base, 1, 0, group_channels * inner);
              const double deviation = std::sqrt(moments.variance + epsilon_);
              for (int64_t c = 0; c < group_channels; ++c) {
                const int64_t pair = pairs == groups ? unit % groups : unit % groups * group_channels + c;
                const double a = At(*scale, pair) / deviation;
                ScaleRun(source + base + c * inner, target + base + c * inner, inner, a,
                         At(*bias, pair) - moments.mean * a);
              }
            }
          });
    });
    return Status();
  }

 private:
  bool instance_;
  int64_t groups_;
  double epsilon_;
};

}  // namespace

void RegisterBatchNormKernels(KernelRegistry& registry) {
  const auto add = [&](const char* name, int since, KernelCreateFunc create) {
    registry.Add(
        KernelDef(name).Since(since).Input(0, kFloatTypes).Input(1, kFloatTypes).Output(0, kFloatTypes),
        create);
  };
  add("BatchNormalization", 1, CreateKernel<BatchNormalization>);
  add("InstanceNormalization", 1, CreateKernel<GroupNormalization>);
  add("GroupNormalization", 18, CreateKernel<GroupNormalization>);
}

}  // namespace lamina
