// CenterCropPad: cuts or zero-pads axes evenly at both ends to a given shape.
#include <cstring>

#include "providers/cpu/tensor/strided_copy.h"

namespace lamina {
namespace {

class CenterCropPad : public Kernel {
 public:
  explicit CenterCropPad(const NodeInfo& node) : axes_(node.Ints("axes")) {}
  static Status Validate(const NodeInfo& node) { return IntsAttribute(node, "axes").status(); }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* wanted_input, RequireInput(context, 1));
    LAMINA_ASSIGN_OR_RETURN(const IntList wanted, ReadInts(*wanted_input));
    const Shape& shape = x->shape();
    IntList axes = axes_;
    for (int axis = 0; axes_.empty() && axis < shape.rank(); ++axis) axes.Append(axis);
    LAMINA_RETURN_IF_ERROR(AxisMask(axes.span(), shape.rank()).status());
    if (axes.size() != wanted.size()) {
      return InvalidArgumentError("{} sizes for {} axes", wanted.size(), axes.size());
    }
    Shape out_shape = shape;
    for (int i = 0; i < axes.size(); ++i) {
      out_shape[static_cast<int>(axes[i] < 0 ? axes[i] + shape.rank() : axes[i])] = wanted[i];
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, out_shape));
    if (!y) return Status();
    std::memset(y->mutable_raw_data(), 0, y->size_bytes());
    StridedCopy copy;
    copy.type = x->type();
    copy.source = x->raw_data();
    copy.target = y->mutable_raw_data();
    copy.source_strides = ContiguousStrides(shape);
    copy.target_strides = ContiguousStrides(out_shape);
    for (int axis = 0; axis < shape.rank(); ++axis) {
      // An odd rest goes to the end.
      copy.source_offset +=
          std::max<int64_t>(0, shape[axis] - out_shape[axis]) / 2 * copy.source_strides[axis];
      copy.target_offset +=
          std::max<int64_t>(0, out_shape[axis] - shape[axis]) / 2 * copy.target_strides[axis];
      copy.extents.Append(std::min(shape[axis], out_shape[axis]));
    }
    copy.Run(context.threads());
    return Status();
  }

 private:
  IntList axes_;
};

}  // namespace

void RegisterCenterCropPadKernels(KernelRegistry& registry) {
  const TypeSet types = kNumericTypes | TypeSet{DataType::kBool, DataType::kComplex64, DataType::kComplex128};
  registry.Add(KernelDef("CenterCropPad").Since(18).Input(0, types).HostInput(1).Output(0, types),
               CreateKernel<CenterCropPad>);
}

}  // namespace lamina
