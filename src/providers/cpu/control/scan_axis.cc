#include "providers/cpu/control/scan_axis.h"

#include "providers/cpu/tensor/strided_copy.h"

namespace lamina {
namespace {

// Copies a tensor into place `index` of an axis of `target`.
void CopyInto(ThreadPool& threads, const Tensor& source, Tensor& target, int axis, int64_t index) {
  const IntList target_strides = ContiguousStrides(target.shape());
  StridedCopy copy;
  copy.type = source.type();
  copy.source = source.raw_data();
  copy.target = target.mutable_raw_data();
  copy.target_offset = index * target_strides[axis];
  copy.extents = IntList(source.shape().dims());
  copy.source_strides = ContiguousStrides(source.shape());
  for (int i = 0; i < target.shape().rank(); ++i) {
    if (i != axis) copy.target_strides.Append(target_strides[i]);
  }
  copy.Run(threads);
}

Result<const Tensor*> TensorOf(const Value& value) {
  if (!value.is_tensor()) {
    return InvalidArgumentError("a scan output must be a tensor, found {}", value.type().ToString());
  }
  return &value.tensor();
}

}  // namespace

Result<Tensor> SliceAlong(KernelContext& context, const Tensor& tensor, int axis, int64_t index) {
  const IntList strides = ContiguousStrides(tensor.shape());
  Shape shape;
  StridedCopy copy;
  for (int i = 0; i < tensor.shape().rank(); ++i) {
    if (i == axis) continue;
    shape.Append(tensor.shape()[i]);
    copy.source_strides.Append(strides[i]);
  }
  LAMINA_ASSIGN_OR_RETURN(Tensor slice, context.AllocateHost(tensor.type(), shape));
  copy.type = tensor.type();
  copy.source = tensor.raw_data();
  copy.target = slice.mutable_raw_data();
  copy.source_offset = index * strides[axis];
  copy.extents = IntList(shape.dims());
  copy.target_strides = ContiguousStrides(shape);
  copy.Run(context.threads());
  return slice;
}

Status StackScanOutput(KernelContext& context, int index, const std::vector<Value>& trips,
                       const ScanDirection& direction, const Shape& empty_shape) {
  if (!context.HasOutput(index)) return Status();
  if (trips.empty()) return context.Output(index, empty_shape).status();
  LAMINA_ASSIGN_OR_RETURN(const Tensor* first, TensorOf(trips[0]));
  const Shape shape = first->shape();
  if (shape.rank() == Shape::kMaxRank) return InvalidArgumentError("a scan output has too many dimensions");
  LAMINA_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(direction.axis, shape.rank() + 1));
  const auto count = static_cast<int64_t>(trips.size());
  Shape stacked;
  for (int i = 0; i <= shape.rank(); ++i) stacked.Append(i == axis ? count : shape[i < axis ? i : i - 1]);
  LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(index, stacked));
  for (int64_t trip = 0; trip < count; ++trip) {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* tensor, TensorOf(trips[static_cast<size_t>(trip)]));
    if (!(tensor->shape() == shape) || tensor->type() != out->type()) {
      return InvalidArgumentError("scan output {} has shapes {} and {} in different trips", index,
                                  shape.ToString(), tensor->shape().ToString());
    }
    CopyInto(context.threads(), *tensor, *out, axis, direction.backwards ? count - 1 - trip : trip);
  }
  return Status();
}

Result<Tensor> StackPadded(KernelContext& context, const std::vector<Value>& trips, int64_t steps) {
  if (trips.empty()) return InvalidArgumentError("a sequence without steps");
  LAMINA_ASSIGN_OR_RETURN(const Tensor* first, TensorOf(trips[0]));
  if (first->shape().rank() == Shape::kMaxRank) {
    return InvalidArgumentError("a scan output has too many dimensions");
  }
  Shape shape{steps};
  for (const int64_t extent : first->shape()) shape.Append(extent);
  LAMINA_ASSIGN_OR_RETURN(Tensor stacked, context.AllocateHost(first->type(), shape));
  if (first->type() != DataType::kString) {
    std::fill_n(static_cast<std::byte*>(stacked.mutable_raw_data()), stacked.size_bytes(), std::byte{0});
  }
  for (size_t trip = 0; trip < trips.size(); ++trip) {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* tensor, TensorOf(trips[trip]));
    if (!(tensor->shape() == first->shape()) || tensor->type() != first->type()) {
      return InvalidArgumentError("a scan output has different shapes in different steps");
    }
    CopyInto(context.threads(), *tensor, stacked, 0, static_cast<int64_t>(trip));
  }
  return stacked;
}

std::vector<Shape> EmptyScanShapes(const NodeInfo& node) {
  std::vector<Shape> shapes;
  for (int i = 0; i < node.num_outputs(); ++i) {
    Shape shape;
    const ShapeBounds* bounds = node.output_bounds(i);
    for (int axis = 0; bounds && axis < bounds->rank(); ++axis) {
      const DimBounds& dim = (*bounds)[axis];
      shape.Append(axis > 0 && dim.exact() ? dim.min : 0);
    }
    if (shape.rank() == 0) shape.Append(0);
    shapes.push_back(shape);
  }
  return shapes;
}

}  // namespace lamina
