// LayerNormalization (ai.onnx 17; exporters also write it for older opsets), RMSNormalization (ai.onnx 23)
// and SimplifiedLayerNormalization (ONNX Runtime's name for the RMS form, in the default domain).
#include <cmath>
#include <cstring>
#include <memory>

#include "base/element_type.h"
#include "provider/kernel_registry.h"
#include "providers/cpu/gemm/gemm.h"
#include "providers/cpu/rows/row_kernels.h"
#include "providers/cpu/workspace_bounds.h"

namespace lamina {
namespace {

enum class NormKind { kLayer, kRms, kSimplified };

// Workspace slots: scale and shift where their shape has to be broadcast to the normalised axes.
constexpr int kExpandedScale = 0;
constexpr int kExpandedShift = 1;

// Copies `source`, broadcast to `shape`, to target. REQUIRES: it broadcasts.
void Expand(const Tensor& source, const Shape& shape, char* target) {
  const int64_t element_bytes = DataTypeBits(source.type()) / 8;
  const char* data = static_cast<const char*>(source.raw_data());
  const int missing = shape.rank() - source.shape().rank();
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    int64_t rest = i;
    int64_t offset = 0;
    int64_t stride = 1;
    for (int axis = shape.rank() - 1; axis >= missing; --axis) {
      const int64_t dim = source.shape()[axis - missing];
      if (dim != 1) offset += rest % shape[axis] * stride;
      rest /= shape[axis];
      stride *= dim;
    }
    std::memcpy(target + i * element_bytes, data + offset * element_bytes,
                static_cast<size_t>(element_bytes));
  }
}

bool Broadcasts(const Shape& from, const Shape& to) {
  const int missing = to.rank() - from.rank();
  if (missing < 0) return false;
  for (int axis = 0; axis < from.rank(); ++axis) {
    if (from[axis] != 1 && from[axis] != to[axis + missing]) return false;
  }
  return true;
}

// The row kernel for doubles.
void NormalizeDouble(NormalizeRow& row, double* mean_out, double* inverse_deviation_out) {
  const auto* x = static_cast<const double*>(row.x);
  const auto* scale = static_cast<const double*>(row.scale);
  const auto* shift = static_cast<const double*>(row.shift);
  auto* y = static_cast<double*>(row.y);
  const auto count = static_cast<double>(row.count);
  double mean = 0;
  for (int64_t i = 0; !row.rms && i < row.count; ++i) mean += x[i] / count;
  double variance = 0;
  for (int64_t i = 0; i < row.count; ++i) variance += (x[i] - mean) * (x[i] - mean) / count;
  const double inverse_deviation = 1 / std::sqrt(variance + static_cast<double>(row.epsilon));
  for (int64_t i = 0; i < row.count; ++i) {
    y[i] = (x[i] - mean) * inverse_deviation * scale[i] + (shift ? shift[i] : 0.0);
  }
  *mean_out = mean;
  *inverse_deviation_out = inverse_deviation;
}

void StoreStatistic(Tensor* tensor, int64_t row, double value) {
  if (!tensor) return;
  DispatchType<float, double, Float16, Bfloat16>(tensor->type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    tensor->mutable_data<T>()[row] = static_cast<T>(static_cast<ComputeType<T>>(value));
  });
}

template <NormKind kKind>
class LayerNorm : public Kernel {
 public:
  explicit LayerNorm(const NodeInfo& node)
      : kernels_(RowKernelsFor(ActiveIsa())),
        axis_(static_cast<int>(node.Int("axis", -1))),
        epsilon_(node.Float("epsilon", 1e-5f)) {}

  static Status Validate(const NodeInfo& node) {
    if (node.Int("stash_type", 1) != 1) {
      return UnsupportedError("node '{}': {} computes in float (stash_type 1), found stash_type {}",
                              node.name(), node.op_type(), node.Int("stash_type", 1));
    }
    return Status();
  }

  static Status Workspace(const NodeInfo& node, WorkspaceRequirements& requirements) {
    LAMINA_ASSIGN_OR_RETURN(const Shape x, LargestInputShape(node, 0));
    const int64_t axis = node.Int("axis", -1);
    const int first = static_cast<int>(axis < 0 ? axis + x.rank() : axis);
    if (first < 0 || first >= x.rank()) return Status();  // Compute reports it
    const int64_t count = x.num_elements(first, x.rank());
    for (const int slot : {kExpandedScale, kExpandedShift}) {
      const int input = slot + 1;
      if (!node.HasInput(input)) continue;
      const ShapeBounds* bounds = node.input_bounds(input);
      if (bounds && bounds->bounded() && bounds->Max().num_elements() == count) continue;
      const int64_t element_bytes = DataTypeBits(node.input_type(input).element) / 8;
      LAMINA_RETURN_IF_ERROR(requirements.Add(slot, static_cast<size_t>(count * element_bytes)));
    }
    return Status();
  }
  Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                      WorkspaceRequirements& requirements) const override {
    return Workspace(node, requirements);
  }

  Status Compute(KernelContext& context) const override {
    const Tensor& x = *context.Input(0);
    const Tensor& scale = *context.Input(1);
    const Tensor* shift = kKind == NormKind::kLayer && context.num_inputs() > 2 ? context.Input(2) : nullptr;
    const int rank = x.shape().rank();
    const int axis = axis_ < 0 ? axis_ + rank : axis_;
    if (axis < 0 || axis >= rank) {
      return InvalidArgumentError("axis {} is out of range for an input of shape {}", axis_,
                                  x.shape().ToString());
    }
    Shape normalized;
    Shape statistics;
    for (int i = 0; i < rank; ++i) {
      if (i >= axis) normalized.Append(x.shape()[i]);
      statistics.Append(i < axis ? x.shape()[i] : 1);
    }
    LAMINA_ASSIGN_OR_RETURN(const void* scale_data, Expanded(context, scale, normalized, kExpandedScale));
    const void* shift_data = nullptr;
    if (shift) {
      LAMINA_ASSIGN_OR_RETURN(shift_data, Expanded(context, *shift, normalized, kExpandedShift));
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, x.shape()));
    Tensor* mean = nullptr;
    Tensor* inverse_deviation = nullptr;
    if constexpr (kKind == NormKind::kLayer) {
      LAMINA_ASSIGN_OR_RETURN(mean, OptionalOutput(context, 1, statistics));
      LAMINA_ASSIGN_OR_RETURN(inverse_deviation, OptionalOutput(context, 2, statistics));
    } else if constexpr (kKind == NormKind::kSimplified) {
      LAMINA_ASSIGN_OR_RETURN(inverse_deviation, OptionalOutput(context, 1, statistics));
    }

    NormalizeRow prototype;
    prototype.count = normalized.num_elements();
    prototype.scale = scale_data;
    prototype.shift = shift_data;
    prototype.epsilon = epsilon_;
    prototype.rms = kKind != NormKind::kLayer;
    prototype.round_before_scale = kKind == NormKind::kRms;
    const bool is_double = x.type() == DataType::kDouble;
    const RowKernels::OfType& kernels = kernels_.For(x.type());
    const auto normalize = scale.type() == x.type() ? kernels.normalize : kernels.normalize_float_scale;
    const int64_t row_bytes = prototype.count * DataTypeBits(x.type()) / 8;
    const char* x_data = static_cast<const char*>(x.raw_data());
    char* y_data = static_cast<char*>(y->mutable_raw_data());
    context.threads().ParallelFor(x.shape().num_elements(0, axis),
                                  GrainFor(static_cast<double>(prototype.count) * 0.25),
                                  [&](int64_t begin, int64_t end, int) {
                                    for (int64_t i = begin; i < end; ++i) {
                                      NormalizeRow row = prototype;
                                      row.x = x_data + i * row_bytes;
                                      row.y = y_data + i * row_bytes;
                                      double mean_value = 0;
                                      double deviation_value = 0;
                                      if (is_double) {
                                        NormalizeDouble(row, &mean_value, &deviation_value);
                                      } else {
                                        normalize(row);
                                        mean_value = row.mean;
                                        deviation_value = row.inverse_deviation;
                                      }
                                      StoreStatistic(mean, i, mean_value);
                                      StoreStatistic(inverse_deviation, i, deviation_value);
                                    }
                                  });
    return Status();
  }

 private:
  static Result<Tensor*> OptionalOutput(KernelContext& context, int index, const Shape& shape) {
    if (index >= context.num_outputs() || !context.HasOutput(index)) return static_cast<Tensor*>(nullptr);
    return context.Output(index, shape);
  }

  // The elements of a scale or shift for every normalised element.
  static Result<const void*> Expanded(KernelContext& context, const Tensor& tensor, const Shape& normalized,
                                      int slot) {
    if (!Broadcasts(tensor.shape(), normalized)) {
      return InvalidArgumentError("a scale or bias of shape {} does not broadcast to the normalised axes {}",
                                  tensor.shape().ToString(), normalized.ToString());
    }
    if (tensor.num_elements() == normalized.num_elements()) return tensor.raw_data();
    const int64_t bytes = normalized.num_elements() * DataTypeBits(tensor.type()) / 8;
    LAMINA_ASSIGN_OR_RETURN(void* memory, context.GetScratchBuffer(slot, static_cast<size_t>(bytes)));
    Expand(tensor, normalized, static_cast<char*>(memory));
    return static_cast<const void*>(memory);
  }

  const RowKernels& kernels_;
  int axis_;
  float epsilon_;
};

template <NormKind kKind>
void Register(KernelRegistry& registry, const char* op_type, int since) {
  // Scale and bias are of the input's type, or of float beside a 16-bit input.
  for (const DataType type : {DataType::kFloat, DataType::kDouble, DataType::kFloat16, DataType::kBfloat16}) {
    const TypeSet scale_types = type == DataType::kDouble ? TypeSet(type) : TypeSet{type, DataType::kFloat};
    registry.Add(KernelDef(op_type)
                     .Since(since)
                     .Input(0, type)
                     .Input(1, scale_types)
                     .Input(2, scale_types)
                     .Output(0, type)
                     .MayInplace(0, 0),
                 CreateKernel<LayerNorm<kKind>>, EstimateWorkspace<LayerNorm<kKind>>);
  }
}

}  // namespace

void RegisterLayerNorm(KernelRegistry& registry) {
  Register<NormKind::kLayer>(registry, "LayerNormalization", 1);
  Register<NormKind::kRms>(registry, "RMSNormalization", 23);
  Register<NormKind::kSimplified>(registry, "SimplifiedLayerNormalization", 1);
}

}  // namespace lamina
