// Operators that make tensors: Constant, ConstantOfShape, Shape, Size, Range, EyeLike.
#include <cmath>
#include <cstring>

#include "model/sparse_tensor.h"
#include "providers/cpu/elementwise/arithmetic_ops.h"
#include "providers/cpu/tensor/strided_copy.h"

namespace lamina {
namespace {

// The value of a Constant node; whichever attribute it has.
Result<Tensor> ConstantValue(const NodeInfo& node) {
  if (std::optional<Tensor> value = node.TensorAttribute("value")) return *std::move(value);
  if (const Attribute* sparse = node.FindAttribute("sparse_value")) {
    const auto* tensor = std::get_if<std::shared_ptr<const SparseTensor>>(&sparse->value);
    if (tensor && *tensor) return MakeDense(**tensor);
  }
  if (node.FindAttribute("value_float")) {
    const float value = node.Float("value_float", 0);
    return Tensor::FromValues<float>(DataType::kFloat, {}, {&value, 1});
  }
  if (node.FindAttribute("value_int")) {
    const int64_t value = node.Int("value_int", 0);
    return Tensor::FromValues<int64_t>(DataType::kInt64, {}, {&value, 1});
  }
  if (node.FindAttribute("value_string")) {
    const std::string value(node.String("value_string", ""));
    return Tensor::FromStrings({}, {&value, 1});
  }
  if (node.FindAttribute("value_floats")) {
    const auto values = node.Floats("value_floats");
    return Tensor::FromValues<float>(DataType::kFloat, {static_cast<int64_t>(values.size())}, values);
  }
  if (node.FindAttribute("value_ints")) {
    const auto values = node.Ints("value_ints");
    return Tensor::FromValues<int64_t>(DataType::kInt64, {static_cast<int64_t>(values.size())}, values);
  }
  if (node.FindAttribute("value_strings")) {
    const auto values = node.Strings("value_strings");
    return Tensor::FromStrings({static_cast<int64_t>(values.size())}, values);
  }
  return InvalidModelError("Constant has no value in memory");
}

class Constant : public Kernel {
 public:
  explicit Constant(Tensor value) : value_(std::move(value)) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, value_.shape()));
    if (!out) return Status();
    if (value_.type() == DataType::kString) {
      CopyElements(DataType::kString, value_.raw_data(), out->mutable_raw_data(), value_.num_elements());
    } else if (value_.size_bytes() > 0) {
      std::memcpy(out->mutable_raw_data(), value_.raw_data(), value_.size_bytes());
    }
    return Status();
  }

 private:
  Tensor value_;
};

Result<std::unique_ptr<Kernel>> CreateConstant(const NodeInfo& node) {
  LAMINA_ASSIGN_OR_RETURN(Tensor value, ConstantValue(node));
  return std::unique_ptr<Kernel>(std::make_unique<Constant>(std::move(value)));
}

class ConstantOfShape : public Kernel {
 public:
  explicit ConstantOfShape(const NodeInfo& node) {
    if (const std::optional<Tensor> value = node.TensorAttribute("value")) {
      std::memcpy(value_, value->raw_data(), value->size_bytes());
    }
  }
  static Status Validate(const NodeInfo& node) {
    const std::optional<Tensor> value = node.TensorAttribute("value");
    if (value && (value->num_elements() != 1 || value->type() == DataType::kString)) {
      return InvalidModelError("value must be one element, found {}{}", DataTypeName(value->type()),
                               value->shape().ToString());
    }
    return Status();
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* dims_input, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const IntList dims, ReadInts(*dims_input));
    if (dims.size() > Shape::kMaxRank)
      return InvalidArgumentError("more than {} dimensions", Shape::kMaxRank);
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, Shape(dims.span())));
    if (!out) return Status();
    const int bits = DataTypeBits(out->type());
    if (bits < 8) {
      uint8_t packed = 0;
      for (int shift = 0; shift < 8; shift += bits) {
        packed = static_cast<uint8_t>(packed | (value_[0] & ((1 << bits) - 1)) << shift);
      }
      std::memset(out->mutable_raw_data(), packed, out->size_bytes());
      return Status();
    }
    auto* target = static_cast<std::byte*>(out->mutable_raw_data());
    const int64_t bytes = bits / 8;
    context.threads().ParallelFor(out->num_elements(), GrainOf(1), [&](int64_t begin, int64_t end, int) {
      FillElements(out->type(), value_, target + begin * bytes, end - begin);
    });
    return Status();
  }

 private:
  alignas(16) uint8_t value_[16] = {};  // one element; zero of fp32 by default
};

class ShapeOf : public Kernel {
 public:
  explicit ShapeOf(const NodeInfo& node)
      : start_(node.Int("start", 0)), end_(node.Int("end", std::numeric_limits<int64_t>::max())) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    const int64_t rank = input->shape().rank();
    const int64_t start = std::clamp<int64_t>(start_ < 0 ? start_ + rank : start_, 0, rank);
    const int64_t end = std::clamp<int64_t>(end_ < 0 ? end_ + rank : end_, start, rank);
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, {end - start}));
    if (out)
      std::copy(input->shape().begin() + start, input->shape().begin() + end, out->mutable_data<int64_t>());
    return Status();
  }

 private:
  int64_t start_;
  int64_t end_;
};

class Size : public Kernel {
 public:
  explicit Size(const NodeInfo&) {}
  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, {}));
    if (out) *out->mutable_data<int64_t>() = input->num_elements();
    return Status();
  }
};

// start, start + delta, ... up to limit, which is left out.
class Range : public Kernel {
 public:
  explicit Range(const NodeInfo&) {}

  Status Compute(KernelContext& context) const override {
    const Tensor* bounds[3] = {};
    for (int i = 0; i < 3; ++i) {
      LAMINA_ASSIGN_OR_RETURN(bounds[i], RequireInput(context, i));
      if (bounds[i]->num_elements() != 1 || bounds[i]->type() != bounds[0]->type()) {
        return InvalidArgumentError("start, limit and delta must be scalars of one type");
      }
    }
    Status status;
    DispatchType<float, double, Float16, Bfloat16, int16_t, int32_t, int64_t>(
        bounds[0]->type(), [&](auto tag) {
          using T = typename decltype(tag)::type;
          using C = ComputeType<T>;
          status = Fill<T, C>(context, static_cast<C>(*bounds[0]->data<T>()),
                              static_cast<C>(*bounds[1]->data<T>()), static_cast<C>(*bounds[2]->data<T>()));
        });
    return status;
  }

 private:
  template <typename T, typename C>
  static Status Fill(KernelContext& context, C start, C limit, C delta) {
    if (delta == 0) return InvalidArgumentError("the delta of the range is 0");
    int64_t count = 0;
    if constexpr (std::is_integral_v<C>) {
      // Differences of 64-bit integers need 65 bits: taken as unsigned where they have the sign of delta.
      if (delta > 0 ? start < limit : start > limit) {
        const uint64_t span = delta > 0 ? static_cast<uint64_t>(limit) - static_cast<uint64_t>(start)
                                        : static_cast<uint64_t>(start) - static_cast<uint64_t>(limit);
        const uint64_t step =
            delta > 0 ? static_cast<uint64_t>(delta) : uint64_t{0} - static_cast<uint64_t>(delta);
        count = static_cast<int64_t>((span - 1) / step + 1);
      }
    } else {
      const double exact =
          std::ceil((static_cast<double>(limit) - static_cast<double>(start)) / static_cast<double>(delta));
      if (!(exact < 0x1p62))
        return InvalidArgumentError("the range from {} to {} has no length", start, limit);
      count = exact > 0 ? static_cast<int64_t>(exact) : 0;
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, {count}));
    if (!out) return Status();
    T* target = out->mutable_data<T>();
    for (int64_t i = 0; i < count; ++i) {
      target[i] = static_cast<T>(AddOp::Apply(start, MulOp::Apply(static_cast<C>(i), delta)));
    }
    return Status();
  }
};

// Ones on the diagonal k, in a matrix of the input's shape.
class EyeLike : public Kernel {
 public:
  explicit EyeLike(const NodeInfo& node) : diagonal_(node.Int("k", 0)) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    const Shape& shape = input->shape();
    if (shape.rank() != 2) return InvalidArgumentError("a matrix expected, found {}", shape.ToString());
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, shape));
    if (!out) return Status();
    DispatchType<float, double, Float16, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                 uint32_t, uint64_t, bool>(out->type(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      T* target = out->mutable_data<T>();
      for (int64_t row = 0; row < shape[0]; ++row) {
        for (int64_t column = 0; column < shape[1]; ++column) {
          target[row * shape[1] + column] =
              static_cast<T>(static_cast<ComputeType<T>>(column - row == diagonal_ ? 1 : 0));
        }
      }
    });
    return Status();
  }

 private:
  int64_t diagonal_;
};

}  // namespace

void RegisterConstantKernels(KernelRegistry& registry) {
  registry.Add(KernelDef("Constant"), CreateConstant);
  registry.Add(KernelDef("ConstantOfShape").Since(9).HostInput(0).Output(0, kFixedSizeTypes),
               CreateKernel<ConstantOfShape>);
  registry.Add(KernelDef("Shape").HostOutput(0).Output(0, DataType::kInt64), CreateKernel<ShapeOf>);
  registry.Add(KernelDef("Size").HostOutput(0).Output(0, DataType::kInt64), CreateKernel<Size>);
  registry.Add(KernelDef("Range").Since(11).HostInput(0).HostInput(1).HostInput(2).Input(
                   0, kFloatTypes | TypeSet{DataType::kInt16, DataType::kInt32, DataType::kInt64}),
               CreateKernel<Range>);
  registry.Add(KernelDef("EyeLike").Since(9).Output(0, kNumericTypes | DataType::kBool),
               CreateKernel<EyeLike>);
}

}  // namespace lamina
