// Tensors made from a few numbers: Range, ConstantOfShape, CausalMask; and the shape of a tensor, which stays
// on the host.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "providers/cuda/kernels/cuda_kernel.h"
#include "providers/cuda/kernels/families.h"

namespace lamina::cuda {
namespace {

class Range : public CudaKernel {
 public:
  Range(const NodeInfo& node, const KernelLauncher& launcher) : CudaKernel(node, launcher) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* start, Required(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* limit, Required(context, 1));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* step, Required(context, 2));
    RangeArguments arguments{};
    arguments.type = ElementTypeOf(start->type());
    double span = 0;
    if (start->type() == DataType::kFloat) {
      arguments.start = *start->data<float>();
      arguments.step = *step->data<float>();
      span = (static_cast<double>(*limit->data<float>()) - arguments.start) / arguments.step;
    } else {
      LAMINA_ASSIGN_OR_RETURN(const std::vector<int64_t> starts, HostInts(*start));
      LAMINA_ASSIGN_OR_RETURN(const std::vector<int64_t> limits, HostInts(*limit));
      LAMINA_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, HostInts(*step));
      arguments.integer_start = starts.at(0);
      arguments.integer_step = steps.at(0);
      span = (static_cast<double>(limits.at(0)) - static_cast<double>(starts.at(0))) /
             static_cast<double>(steps.at(0));
    }
    constexpr double kMaxCount = 1LL << 31;
    if (!(std::ceil(span) < kMaxCount)) {
      return InvalidArgumentError("a range of {} steps: fewer than 2^31 are supported", span);
    }
    arguments.count = static_cast<int64_t>(std::max(0.0, std::ceil(span)));
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, Shape{arguments.count}));
    if (!out || arguments.count == 0) return Status();
    arguments.y = out->mutable_raw_data();
    return Launch(context.stream(), "range", &KernelApi::range, arguments);
  }
};

class ConstantOfShape : public CudaKernel {
 public:
  ConstantOfShape(const NodeInfo& node, const KernelLauncher& launcher)
      : CudaKernel(node, launcher), value_(node.TensorAttribute("value")) {}

  static Status Validate(const NodeInfo& node) {
    const std::optional<Tensor> value = node.TensorAttribute("value");
    if (!node.FindAttribute("value") || (value && value->num_elements() == 1)) return Status();
    return UnsupportedError("value must be a tensor of one element in memory");
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* shape_input, Required(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, HostInts(*shape_input));
    if (dims.size() > static_cast<size_t>(Shape::kMaxRank) ||
        std::any_of(dims.begin(), dims.end(), [](int64_t dim) { return dim < 0; })) {
      return InvalidArgumentError("the shape [{}] is no shape of a tensor", fmt::join(dims, ","));
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, Shape(dims)));
    if (!out || out->num_elements() == 0) return Status();
    FillArguments arguments{};
    arguments.element_bytes = ElementBytesOf(out->type());
    arguments.y = out->mutable_raw_data();
    arguments.count = out->num_elements();
    if (value_) {
      std::memcpy(&arguments.bits, value_->raw_data(), static_cast<size_t>(arguments.element_bytes));
    }
    return Launch(context.stream(), "fill", &KernelApi::fill, arguments);
  }

 private:
  std::optional<Tensor> value_;  // nothing: zero
};

class CausalMask : public CudaKernel {
 public:
  CausalMask(const NodeInfo& node, const KernelLauncher& launcher)
      : CudaKernel(node, launcher), masked_(node.Float("masked", 0.0f)), window_(node.Int("window", 0)) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* mask, Required(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* tokens, Required(context, 1));
    if (mask->shape().rank() != 2 || tokens->shape().rank() < 2 || tokens->shape()[0] != mask->shape()[0]) {
      return InvalidArgumentError(
          "expected attention_mask [batch, keys] and tokens [batch, sequence, ..], found {} and {}",
          mask->shape().ToString(), tokens->shape().ToString());
    }
    CausalMaskArguments arguments{};
    arguments.mask = mask->raw_data();
    arguments.mask_type = ElementTypeOf(mask->type());
    arguments.batch = mask->shape()[0];
    arguments.sequence = tokens->shape()[1];
    arguments.keys = mask->shape()[1];
    arguments.window = window_;
    arguments.masked = masked_;
    LAMINA_ASSIGN_OR_RETURN(Tensor * out,
                            context.Output(0, Shape{arguments.batch, 1, arguments.sequence, arguments.keys}));
    if (!out || out->num_elements() == 0) return Status();
    arguments.out = out->mutable_data<float>();
    return Launch(context.stream(), "causal_mask", &KernelApi::causal_mask, arguments);
  }

 private:
  float masked_;
  int64_t window_;
};

class ShapeOf : public CudaKernel {
 public:
  ShapeOf(const NodeInfo& node, const KernelLauncher& launcher)
      : CudaKernel(node, launcher),
        start_(node.Int("start", 0)),
        end_(node.FindAttribute("end") ? std::optional<int64_t>(node.Int("end", 0)) : std::nullopt) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, Required(context, 0));
    const Shape& shape = input->shape();
    const auto clamped = [&](int64_t axis) {
      return std::clamp<int64_t>(axis < 0 ? axis + shape.rank() : axis, 0, shape.rank());
    };
    const int64_t begin = clamped(start_);
    const int64_t end = std::max(begin, clamped(end_.value_or(shape.rank())));
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, Shape{end - begin}));
    if (out) std::copy(shape.begin() + begin, shape.begin() + end, out->mutable_data<int64_t>());
    return Status();
  }

 private:
  int64_t start_;
  std::optional<int64_t> end_;
};

}  // namespace

void RegisterGenerators(KernelRegistrar& registrar) {
  for (const DataType type : {DataType::kFloat, DataType::kInt32, DataType::kInt64}) {
    KernelDef def("Range");
    def.Since(11).Output(0, type);
    for (const int i : {0, 1, 2}) def.Input(i, type).HostInput(i);
    registrar.Add<Range>(std::move(def));
  }
  registrar.Add<ConstantOfShape>(KernelDef("ConstantOfShape").Since(9).HostInput(0).Output(0, kMovedTypes));
  registrar.Add<CausalMask>(KernelDef("CausalMask", "lamina")
                                .Input(0, TypeSet{DataType::kBool, DataType::kInt32, DataType::kInt64})
                                .Output(0, DataType::kFloat));
  registrar.Add<ShapeOf>(
      KernelDef("Shape").Input(0, kFixedSizeTypes).Output(0, DataType::kInt64).HostOutput(0));
}

}  // namespace lamina::cuda
