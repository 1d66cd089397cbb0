#include "providers/cuda/kernels/cuda_kernel.h"

#include <fmt/format.h>

namespace lamina::cuda {
namespace {

// Where nothing is known of the device: a middle-sized one.
constexpr int kUnknownMultiprocessors = 64;

static_assert(static_cast<int>(ElementType::kFloat16) == static_cast<int>(DataType::kFloat16));
static_assert(static_cast<int>(ElementType::kBfloat16) == static_cast<int>(DataType::kBfloat16));
static_assert(static_cast<int>(ElementType::kUint64) == static_cast<int>(DataType::kUint64));

}  // namespace

CudaKernel::CudaKernel(const NodeInfo& node, const KernelLauncher& launcher)
    : library_(launcher.library),
      device_(node.device().device.ordinal - launcher.first_ordinal),
      multiprocessors_(node.device().multiprocessors > 0 ? node.device().multiprocessors
                                                         : kUnknownMultiprocessors),
      compute_capability_(node.device().compute_capability_major * 10 +
                          node.device().compute_capability_minor) {
  if (library_) kernels_ = library_->api().kernels();
}

Status CudaKernel::CheckLibrary() const {
  return kernels_ ? Status() : InternalError("there is no device half: this kernel was made for a plan");
}

Status CudaKernel::ToStatus(const char* name, int error) const {
  if (error == 0) return Status();
  return library_->StatusOf(error, device_, fmt::format("kernel '{}'", name).c_str());
}

LaunchTarget CudaKernel::TargetOf(void* stream) const {
  LaunchTarget target;
  target.device = device_;
  target.multiprocessors = multiprocessors_;
  target.compute_capability = compute_capability_;
  target.stream = stream;
  return target;
}

Status CudaKernel::CopyBytes(void* stream, const void* source, void* target, uint64_t bytes) const {
  LAMINA_RETURN_IF_ERROR(CheckLibrary());
  if (bytes == 0) return Status();
  return ToStatus("copy", library_->api().copy(device_, target, source, bytes, stream));
}

Result<const Tensor*> Required(const KernelContext& context, int index) {
  const Tensor* tensor = Optional(context, index);
  if (tensor) return tensor;
  return InvalidArgumentError("input {} is absent", index);
}

const Tensor* Optional(const KernelContext& context, int index) {
  return index < context.num_inputs() ? context.Input(index) : nullptr;
}

Result<Tensor*> OptionalOutput(KernelContext& context, int index, const Shape& shape) {
  if (index >= context.num_outputs() || !context.HasOutput(index)) return static_cast<Tensor*>(nullptr);
  return context.Output(index, shape);
}

Result<int> NormalizedAxis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    return InvalidArgumentError("axis {} is out of range for {} dimensions", axis, rank);
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Result<std::vector<int64_t>> HostInts(const Tensor& tensor) {
  std::vector<int64_t> values;
  if (tensor.type() == DataType::kInt64) {
    for (const int64_t value : tensor.elements<int64_t>()) values.push_back(value);
  } else if (tensor.type() == DataType::kInt32) {
    for (const int32_t value : tensor.elements<int32_t>()) values.push_back(value);
  } else {
    return InvalidArgumentError("expected int32 or int64, found {}", DataTypeName(tensor.type()));
  }
  return values;
}

Result<Shape> LargestInput(const NodeInfo& node, int input) {
  const ShapeBounds* bounds = node.input_bounds(input);
  if (!bounds || !bounds->bounded()) {
    return UnsupportedError("node '{}': a dimension of input {} has no upper bound", node.name(), input);
  }
  const Shape shape = bounds->Max();
  if (!TensorBytes(DataType::kDouble, shape).ok()) {
    return UnsupportedError("node '{}': a shape of up to {} is too large", node.name(), shape.ToString());
  }
  return shape;
}

}  // namespace lamina::cuda
