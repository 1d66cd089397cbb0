// RandomNormal, RandomUniform and their Like forms, Bernoulli, Multinomial, Dropout.
#include "providers/cpu/random/random.h"

#include <bit>
#include <random>

#include "providers/cpu/kernel_util.h"
#include "providers/cpu/tensor/element_convert.h"

namespace lamina {

RandomSource::RandomSource(const NodeInfo& node) : fixed_(node.FindAttribute("seed") != nullptr) {
  if (fixed_) {
    // `seed` is a float, but an integer for Dropout.
    const float value = node.Float("seed", static_cast<float>(node.Int("seed", 0)));
    seed_ = RandomStream(std::bit_cast<uint32_t>(value)).Bits(0);
  } else {
    std::random_device device;
    seed_ = static_cast<uint64_t>(device()) << 32 | device();
  }
}

RandomStream RandomSource::NextStream() const {
  if (fixed_) return RandomStream(seed_);
  return RandomStream(RandomStream(seed_).Bits(static_cast<int64_t>(runs_.fetch_add(1))));
}

namespace {

// Writes element `index`, given as double, of any convertible type.
void SetNumber(Tensor& tensor, int64_t index, double value) {
  const int64_t bytes = ElementBytes(tensor.type());
  ConvertElements(DataType::kDouble, &value, tensor.type(),
                  static_cast<std::byte*>(tensor.mutable_raw_data()) + index * bytes, 0, 1);
}

double NumberAt(const Tensor& tensor, int64_t index) {
  double value = 0;
  ConvertElements(tensor.type(),
                  static_cast<const std::byte*>(tensor.raw_data()) + index * ElementBytes(tensor.type()),
                  DataType::kDouble, &value, 0, 1);
  return value;
}

class RandomTensor : public Kernel {
 public:
  explicit RandomTensor(const NodeInfo& node)
      : source_(node),
        normal_(node.op_type().find("Normal") != std::string_view::npos),
        like_(node.op_type().find("Like") != std::string_view::npos),
        shape_(node.Ints("shape")),
        first_(normal_ ? node.Float("mean", 0) : node.Float("low", 0)),
        second_(normal_ ? node.Float("scale", 1) : node.Float("high", 1)) {}
  static Status Validate(const NodeInfo& node) {
    if (node.Ints("shape").size() > Shape::kMaxRank)
      return InvalidModelError("shape has too many dimensions");
    return Status();
  }

  Status Compute(KernelContext& context) const override {
    Shape shape(shape_.span());
    if (like_) {
      LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
      shape = input->shape();
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, shape));
    if (!out) return Status();
    const RandomStream stream = source_.NextStream();
    context.threads().ParallelFor(out->num_elements(), GrainOf(64), [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        SetNumber(
            *out, i,
            normal_ ? first_ + second_ * stream.Normal(i) : first_ + (second_ - first_) * stream.Uniform(i));
      }
    });
    return Status();
  }

 private:
  RandomSource source_;
  bool normal_;
  bool like_;
  IntList shape_;
  double first_;   // mean, or lower bound
  double second_;  // deviation, or upper bound
};

// 1 with the probability that the input gives, else 0.
class Bernoulli : public Kernel {
 public:
  explicit Bernoulli(const NodeInfo& node) : source_(node) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, input->shape()));
    if (!out) return Status();
    const RandomStream stream = source_.NextStream();
    for (int64_t i = 0; i < input->num_elements(); ++i) {
      SetNumber(*out, i, stream.Uniform(i) < NumberAt(*input, i) ? 1 : 0);
    }
    return Status();
  }

 private:
  RandomSource source_;
};

// Draws `sample_size` classes of each row of unnormalised log probabilities.
class Multinomial : public Kernel {
 public:
  explicit Multinomial(const NodeInfo& node) : source_(node), samples_(node.Int("sample_size", 1)) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    const Shape& shape = input->shape();
    if (shape.rank() != 2 || shape[1] < 1 || samples_ < 0) {
      return InvalidArgumentError("[batch, classes] expected, found {}", shape.ToString());
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, {shape[0], samples_}));
    if (!out) return Status();
    const RandomStream stream = source_.NextStream();
    for (int64_t row = 0; row < shape[0]; ++row) {
      double largest = NumberAt(*input, row * shape[1]);
      for (int64_t c = 1; c < shape[1]; ++c)
        largest = std::max(largest, NumberAt(*input, row * shape[1] + c));
      double total = 0;
      for (int64_t c = 0; c < shape[1]; ++c)
        total += std::exp(NumberAt(*input, row * shape[1] + c) - largest);
      for (int64_t sample = 0; sample < samples_; ++sample) {
        double left = stream.Uniform(row * samples_ + sample) * total;
        int64_t chosen = 0;
        for (; chosen + 1 < shape[1]; ++chosen) {
          left -= std::exp(NumberAt(*input, row * shape[1] + chosen) - largest);
          if (left < 0) break;
        }
        SetNumber(*out, row * samples_ + sample, static_cast<double>(chosen));
      }
    }
    return Status();
  }

 private:
  RandomSource source_;
  int64_t samples_;
};

// Passes its input on; in training mode drops elements with probability `ratio` and scales up the others. The
// mask says which were kept.
class Dropout : public Kernel {
 public:
  explicit Dropout(const NodeInfo& node)
      : source_(node), inputs_decide_(node.opset_version() >= 12), ratio_(node.Float("ratio", 0.5f)) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    double ratio = ratio_;
    bool training = false;  // before opset 12 kernels are for inference
    if (inputs_decide_) {
      if (const Tensor* given = context.Input(1)) {
        LAMINA_ASSIGN_OR_RETURN(ratio, ReadNumber(*given));
      }
      const Tensor* mode = context.Input(2);
      training = mode && mode->num_elements() == 1 && *mode->data<bool>();
    }
    if (training && !(ratio >= 0 && ratio < 1)) return InvalidArgumentError("a ratio of {}", ratio);
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, input->shape()));
    LAMINA_ASSIGN_OR_RETURN(Tensor * mask, context.Output(1, input->shape()));
    const int64_t count = input->num_elements();
    if (!training || ratio == 0) {
      if (out && out->raw_data() != input->raw_data()) {
        CopyElements(input->type(), input->raw_data(), out->mutable_raw_data(), count);
      }
      for (int64_t i = 0; mask && i < count; ++i) SetNumber(*mask, i, 1);
      return Status();
    }
    const RandomStream stream = source_.NextStream();
    for (int64_t i = 0; i < count; ++i) {
      const bool keep = stream.Uniform(i) >= ratio;
      if (out) SetNumber(*out, i, keep ? NumberAt(*input, i) / (1 - ratio) : 0);
      if (mask) SetNumber(*mask, i, keep ? 1 : 0);
    }
    return Status();
  }

 private:
  RandomSource source_;
  bool inputs_decide_;
  double ratio_;
};

}  // namespace

void RegisterRandomKernels(KernelRegistry& registry) {
  for (const char* name : {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike"}) {
    registry.Add(KernelDef(name).Output(0, kFloatTypes), CreateKernel<RandomTensor>);
  }
  registry.Add(
      KernelDef("Bernoulli").Since(15).Input(0, kFloatTypes).Output(0, kNumericTypes | DataType::kBool),
      CreateKernel<Bernoulli>);
  registry.Add(KernelDef("Multinomial").Since(7).Input(0, kFloatTypes).Output(0, kIndexTypes),
               CreateKernel<Multinomial>);
  registry.Add(KernelDef("Dropout")
                   .Input(0, kFloatTypes)
                   .HostInput(1)
                   .HostInput(2)
                   .Output(0, kFloatTypes)
                   .Output(1, kFloatTypes | DataType::kBool)
                   .MayInplace(0, 0),
               CreateKernel<Dropout>);
}

}  // namespace lamina
