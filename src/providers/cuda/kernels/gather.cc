// Gather and GatherBlockQuantized.
#include "providers/cuda/kernels/cuda_kernel.h"
#include "providers/cuda/kernels/families.h"

namespace lamina::cuda {
namespace {

// [data before the axis, indices, data behind it]
Shape GatheredShape(const Shape& data, int axis, const Shape& indices) {
  Shape shape;
  for (int i = 0; i < axis; ++i) shape.Append(data[i]);
  for (const int64_t dim : indices) shape.Append(dim);
  for (int i = axis + 1; i < data.rank(); ++i) shape.Append(data[i]);
  return shape;
}

class Gather : public CudaKernel {
 public:
  Gather(const NodeInfo& node, const KernelLauncher& launcher)
      : CudaKernel(node, launcher), axis_(node.Int("axis", 0)) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* data, Required(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* indices, Required(context, 1));
    LAMINA_ASSIGN_OR_RETURN(const int axis, NormalizedAxis(axis_, data->shape().rank()));
    if (data->shape().rank() - 1 + indices->shape().rank() > Shape::kMaxRank) {
      return InvalidArgumentError("more than {} dimensions", Shape::kMaxRank);
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * out,
                            context.Output(0, GatheredShape(data->shape(), axis, indices->shape())));
    if (!out || out->num_elements() == 0) return Status();
    const Shape& shape = data->shape();
    GatherArguments arguments{};
    arguments.data = data->raw_data();
    arguments.indices = indices->raw_data();
    arguments.index_type = ElementTypeOf(indices->type());
    arguments.out = out->mutable_raw_data();
    arguments.outer = shape.num_elements(0, axis);
    arguments.axis_dim = shape[axis];
    arguments.index_count = indices->num_elements();
    arguments.row_bytes = shape.num_elements(axis + 1, shape.rank()) * ElementBytesOf(data->type());
    return Launch(context.stream(), "gather", &KernelApi::gather, arguments);
  }

 private:
  int64_t axis_;
};

class GatherBlockQuantized : public CudaKernel {
  static constexpr int kData = 0, kIndices = 1, kScales = 2, kZeroPoints = 3;

 public:
  GatherBlockQuantized(const NodeInfo& node, const KernelLauncher& launcher)
      : CudaKernel(node, launcher),
        bits_(node.Int("bits", 4)),
        block_size_(node.Int("block_size", 128)),
        gather_axis_(node.Int("gather_axis", 0)),
        quantize_axis_(node.Int("quantize_axis", 1)),
        type_(node.input_type(kData).element) {}

  static Status Validate(const NodeInfo& node) {
    const int64_t bits = node.Int("bits", 4);
    const int64_t block_size = node.Int("block_size", 128);
    const bool bytes = node.input_type(kData).element == DataType::kUint8;
    if (bits != 4 && !(bits == 8 && bytes)) {
      return UnsupportedError("bits must be 4, or 8 for uint8 data, found {}", bits);
    }
    if (block_size < 16 || (block_size & (block_size - 1)) != 0) {
      return InvalidModelError("block_size must be a power of two of at least 16, found {}", block_size);
    }
    if (bytes && node.Int("gather_axis", 0) != 0) {
      return InvalidModelError("gather_axis must be 0 for uint8 data, found {}", node.Int("gather_axis", 0));
    }
    return Status();
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* data, Required(context, kData));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* indices, Required(context, kIndices));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* scales, Required(context, kScales));
    const Tensor* zeros = Optional(context, kZeroPoints);
    const bool packed_in_bytes = type_ == DataType::kUint8 && bits_ == 4;
    Shape dims = data->shape();  // of values, not of the bytes they are packed in
    const int rank = dims.rank();
    if (rank < 2) return InvalidArgumentError("data must have 2 dimensions or more");
    if (packed_in_bytes) dims[rank - 1] *= 2;
    LAMINA_ASSIGN_OR_RETURN(const int gather, NormalizedAxis(gather_axis_, rank));
    LAMINA_ASSIGN_OR_RETURN(const int quantize, NormalizedAxis(quantize_axis_, rank));
    if (gather == quantize) return InvalidArgumentError("gather_axis and quantize_axis are both {}", gather);
    Shape scale_shape = dims;
    scale_shape[quantize] = (dims[quantize] + block_size_ - 1) / block_size_;
    if (scales->shape() != scale_shape) {
      return InvalidArgumentError("scales must have shape {}, found {}", scale_shape.ToString(),
                                  scales->shape().ToString());
    }
    Shape zero_shape = scale_shape;
    if (packed_in_bytes) zero_shape[rank - 1] = (scale_shape[rank - 1] + 1) / 2;
    if (zeros && (zeros->type() != type_ || zeros->shape() != zero_shape)) {
      return InvalidArgumentError("zero_points must be {} of shape {}, found {} of shape {}",
                                  DataTypeName(type_), zero_shape.ToString(), DataTypeName(zeros->type()),
                                  zeros->shape().ToString());
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, GatheredShape(dims, gather, indices->shape())));
    if (!out || out->num_elements() == 0) return Status();

    GatherQuantizedArguments arguments{};
    arguments.type = ElementTypeOf(scales->type());
    arguments.data = static_cast<const uint8_t*>(data->raw_data());
    arguments.indices = indices->raw_data();
    arguments.index_type = ElementTypeOf(indices->type());
    arguments.scales = scales->raw_data();
    arguments.zeros = zeros ? static_cast<const uint8_t*>(zeros->raw_data()) : nullptr;
    arguments.out = out->mutable_raw_data();
    arguments.bits = static_cast<int32_t>(bits_);
    arguments.is_signed = type_ == DataType::kInt4 ? 1 : 0;
    arguments.default_zero = type_ == DataType::kUint8 ? 1 << (bits_ - 1) : 0;
    arguments.zero_rows_padded = packed_in_bytes ? 1 : 0;
    arguments.outer = dims.num_elements(0, gather);
    arguments.gather_dim = dims[gather];
    arguments.index_count = indices->num_elements();
    arguments.inner = dims.num_elements(gather + 1, rank);
    arguments.quantize_dim = dims[quantize];
    arguments.quantize_stride = dims.num_elements(quantize + 1, rank);
    arguments.block_size = block_size_;
    arguments.blocks = scale_shape[quantize];
    arguments.last_scale_dim = scale_shape[rank - 1];
    return Launch(context.stream(), "gather_quantized", &KernelApi::gather_quantized, arguments);
  }

 private:
  int64_t bits_;
  int64_t block_size_;
  int64_t gather_axis_;
  int64_t quantize_axis_;
  DataType type_;
};

}  // namespace

void RegisterGather(KernelRegistrar& registrar) {
  registrar.Add<Gather>(
      KernelDef("Gather").Input(0, kMovedTypes).Input(1, kIndexTypes).Output(0, kMovedTypes));
  const TypeSet stored{DataType::kUint8, DataType::kInt4, DataType::kUint4};
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16}) {
    registrar.Add<GatherBlockQuantized>(KernelDef("GatherBlockQuantized", kMsDomain)
                                            .Input(0, stored)
                                            .Input(1, kIndexTypes)
                                            .Input(2, type)
                                            .Input(3, stored)
                                            .Output(0, type));
  }
}

}  // namespace lamina::cuda
