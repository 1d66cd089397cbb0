// Expand and Tile: repetition along axes.
#include "providers/cpu/elementwise/broadcast.h"
#include "providers/cpu/tensor/strided_copy.h"

namespace lamina {
namespace {

Result<Shape> ShapeFromInts(const IntList& dims) {
  if (dims.size() > Shape::kMaxRank) return InvalidArgumentError("more than {} dimensions", Shape::kMaxRank);
  for (const int64_t dim : dims) {
    if (dim < 0) return InvalidArgumentError("a dimension of {}", dim);
  }
  return Shape(dims.span());
}

class Expand : public Kernel {
 public:
  explicit Expand(const NodeInfo&) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* wanted, RequireInput(context, 1));
    LAMINA_ASSIGN_OR_RETURN(const IntList dims, ReadInts(*wanted));
    LAMINA_ASSIGN_OR_RETURN(const Shape given, ShapeFromInts(dims));
    LAMINA_ASSIGN_OR_RETURN(const Shape shape, BroadcastShapes(input->shape(), given));
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, shape));
    if (!out) return Status();
    const IntList strides = ContiguousStrides(input->shape());
    const int added = shape.rank() - input->shape().rank();
    StridedCopy copy;
    copy.type = input->type();
    copy.source = input->raw_data();
    copy.target = out->mutable_raw_data();
    copy.extents = IntList(shape.dims());
    copy.target_strides = ContiguousStrides(shape);
    for (int axis = 0; axis < shape.rank(); ++axis) {
      copy.source_strides.Append(axis < added || input->shape()[axis - added] == 1 ? 0
                                                                                   : strides[axis - added]);
    }
    copy.Run(context.threads());
    return Status();
  }
};

// Opset 1 repeats one axis (inputs: tiles, axis); later versions have repeats for every axis.
class Tile : public Kernel {
 public:
  explicit Tile(const NodeInfo& node) : one_axis_(node.opset_version() < 6) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* repeats_input, RequireInput(context, 1));
    const Shape& shape = input->shape();
    IntList repeats(shape.rank(), 1);
    if (one_axis_) {
      LAMINA_ASSIGN_OR_RETURN(const Tensor* axis_input, RequireInput(context, 2));
      LAMINA_ASSIGN_OR_RETURN(const double tiles, ReadNumber(*repeats_input));
      LAMINA_ASSIGN_OR_RETURN(const double axis_number, ReadNumber(*axis_input));
      LAMINA_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(static_cast<int64_t>(axis_number), shape.rank()));
      repeats[axis] = static_cast<int64_t>(tiles);
    } else {
      LAMINA_ASSIGN_OR_RETURN(repeats, ReadInts(*repeats_input));
    }
    if (repeats.size() != shape.rank()) {
      return InvalidArgumentError("{} repeats for input {}", repeats.size(), shape.ToString());
    }
    Shape out_shape;
    StridedCopy copy;  // every axis as two: its repetitions, and its elements
    const IntList strides = ContiguousStrides(shape);
    for (int axis = 0; axis < shape.rank(); ++axis) {
      int64_t extent = 0;
      if (repeats[axis] < 0 || __builtin_mul_overflow(shape[axis], repeats[axis], &extent)) {
        return InvalidArgumentError("axis {} of input {} cannot be repeated {} times", axis, shape.ToString(),
                                    repeats[axis]);
      }
      out_shape.Append(extent);
      copy.extents.Append(repeats[axis]);
      copy.source_strides.Append(0);
      copy.extents.Append(shape[axis]);
      copy.source_strides.Append(strides[axis]);
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, out_shape));
    if (!out) return Status();
    const IntList out_strides = ContiguousStrides(out_shape);
    for (int axis = 0; axis < shape.rank(); ++axis) {
      copy.target_strides.Append(out_strides[axis] * shape[axis]);
      copy.target_strides.Append(out_strides[axis]);
    }
    copy.type = input->type();
    copy.source = input->raw_data();
    copy.target = out->mutable_raw_data();
    copy.Run(context.threads());
    return Status();
  }

 private:
  bool one_axis_;
};

}  // namespace

void RegisterExpandKernels(KernelRegistry& registry) {
  registry.Add(KernelDef("Expand").Since(8).HostInput(1), CreateKernel<Expand>);
  registry.Add(KernelDef("Tile").Since(1, 5).HostInput(1).HostInput(2), CreateKernel<Tile>);
  registry.Add(KernelDef("Tile").Since(6).HostInput(1), CreateKernel<Tile>);
}

}  // namespace lamina
