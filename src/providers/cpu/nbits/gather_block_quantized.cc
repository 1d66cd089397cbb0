// GatherBlockQuantized (com.microsoft): rows of a matrix of 4- or 8-bit weights, as an embedding reads them.
// Reads the weights as the model stores them, since a tied head reads the same bytes.
#include <algorithm>
#include <memory>

#include "base/half.h"
#include "providers/cpu/cpu_kernels.h"
#include "providers/cpu/gemm/gemm.h"
#include "providers/cpu/simd/vec_math.h"

namespace lamina {
namespace {

constexpr int kData = 0, kIndices = 1, kScales = 2, kZeroPoints = 3;
constexpr int64_t kRun = 256;  // elements dequantised on the stack at a time

float LoadFloat(const Tensor& tensor, int64_t index) {
  if (tensor.type() == DataType::kFloat) return tensor.data<float>()[index];
  if (tensor.type() == DataType::kFloat16) return tensor.data<Float16>()[index];
  return tensor.data<Bfloat16>()[index];
}

int Nibble(const uint8_t* bytes, int64_t index, bool is_signed) {
  const int value = (bytes[index / 2] >> (index % 2 * 4)) & 15;
  return is_signed && value > 7 ? value - 16 : value;
}

class GatherBlockQuantized : public Kernel {
 public:
  explicit GatherBlockQuantized(const NodeInfo& node)
      : bits_(node.Int("bits", 4)),
        block_size_(node.Int("block_size", 128)),
        gather_axis_(node.Int("gather_axis", 0)),
        quantize_axis_(node.Int("quantize_axis", 1)),
        type_(node.input_type(kData).element) {}

  static Status Validate(const NodeInfo& node) {
    const int64_t bits = node.Int("bits", 4);
    const int64_t block_size = node.Int("block_size", 128);
    const bool bytes = node.input_type(kData).element == DataType::kUint8;
    if (bits != 4 && !(bits == 8 && bytes)) {
      return UnsupportedError(
          "node '{}': GatherBlockQuantized: bits must be 4, or 8 for uint8 data, found {}", node.name(),
          bits);
    }
    if (block_size < 16 || (block_size & (block_size - 1)) != 0) {
      return InvalidModelError(
          "node '{}': GatherBlockQuantized: block_size must be a power of two of at least 16, found {}",
          node.name(), block_size);
    }
    if (bytes && node.Int("gather_axis", 0) != 0) {
      return InvalidModelError(
          "node '{}': GatherBlockQuantized: gather_axis must be 0 for uint8 data, found {}", node.name(),
          node.Int("gather_axis", 0));
    }
    return Status();
  }

  Status Compute(KernelContext& context) const override {
    const Tensor& data = *context.Input(kData);
    const Tensor& indices = *context.Input(kIndices);
    const Tensor& scales = *context.Input(kScales);
    const Tensor* zeros = context.num_inputs() > kZeroPoints ? context.Input(kZeroPoints) : nullptr;
    LAMINA_ASSIGN_OR_RETURN(const Layout layout, LayoutOf(data.shape(), scales.shape()));
    if (zeros) LAMINA_RETURN_IF_ERROR(CheckZeros(*zeros, scales.shape()));
    LAMINA_RETURN_IF_ERROR(CheckIndices(indices, layout.gather_dim));

    Shape output_shape;
    for (int i = 0; i < layout.gather_axis; ++i) output_shape.Append(layout.dims[i]);
    for (const int64_t dim : indices.shape()) output_shape.Append(dim);
    for (int i = layout.gather_axis + 1; i < layout.dims.rank(); ++i) output_shape.Append(layout.dims[i]);
    LAMINA_ASSIGN_OR_RETURN(Tensor * output, context.Output(0, output_shape));

    const int64_t count = indices.num_elements();
    const int64_t element_bytes = DataTypeBits(output->type()) / 8;
    char* y = static_cast<char*>(output->mutable_raw_data());
    context.threads().ParallelFor(
        layout.outer * count, GrainFor(static_cast<double>(layout.inner)),
        [&](int64_t begin, int64_t end, int) {
          for (int64_t slice = begin; slice < end; ++slice) {
            int64_t index = IndexAt(indices, slice % count);
            if (index < 0) index += layout.gather_dim;
            const int64_t first = (slice / count * layout.gather_dim + index) * layout.inner;
            for (int64_t i = 0; i < layout.inner; i += kRun) {
              float values[kRun];
              const int64_t run = std::min(kRun, layout.inner - i);
              for (int64_t j = 0; j < run; ++j)
                values[j] = Dequantize(data, scales, zeros, layout, first + i + j);
              ConvertFromFloat(output->type(), values, y + (slice * layout.inner + i) * element_bytes, run);
            }
          }
        });
    return Status();
  }

 private:
  struct Layout {
    Shape dims;  // of the values, not of the bytes they are packed in
    int gather_axis = 0;
    int64_t outer = 0;  // slices before the gathered axis
    int64_t gather_dim = 0;
    int64_t inner = 0;  // values of one slice
    int64_t quantize_dim = 0;
    int64_t quantize_stride = 0;  // values between neighbours along the quantised axis
    int64_t blocks = 0;           // along it
    int64_t last_scale_dim = 0;
  };

  bool packed_in_bytes() const { return type_ == DataType::kUint8 && bits_ == 4; }

  Result<Layout> LayoutOf(const Shape& data, const Shape& scales) const {
    Layout layout;
    layout.dims = data;
    const int rank = data.rank();
    if (rank < 2 || scales.rank() != rank) {
      return InvalidArgumentError(
          "data and scales must have the same rank of at least 2, found shapes {} and {}", data.ToString(),
          scales.ToString());
    }
    if (packed_in_bytes()) layout.dims[rank - 1] *= 2;
    const int64_t gather = gather_axis_ < 0 ? gather_axis_ + rank : gather_axis_;
    const int64_t quantize = quantize_axis_ < 0 ? quantize_axis_ + rank : quantize_axis_;
    if (gather < 0 || gather >= rank || quantize < 0 || quantize >= rank || gather == quantize) {
      return InvalidArgumentError(
          "gather_axis {} and quantize_axis {} must be two axes of a tensor of rank {}", gather_axis_,
          quantize_axis_, rank);
    }
    layout.gather_axis = static_cast<int>(gather);
    layout.outer = layout.dims.num_elements(0, layout.gather_axis);
    layout.gather_dim = layout.dims[layout.gather_axis];
    layout.inner = layout.dims.num_elements(layout.gather_axis + 1, rank);
    const int axis = static_cast<int>(quantize);
    layout.quantize_dim = layout.dims[axis];
    layout.quantize_stride = layout.dims.num_elements(axis + 1, rank);
    layout.blocks = (layout.quantize_dim + block_size_ - 1) / block_size_;
    Shape expected = layout.dims;
    expected[axis] = layout.blocks;
    if (scales != expected) {
      return InvalidArgumentError("scales must have shape {}, found {}", expected.ToString(),
                                  scales.ToString());
    }
    layout.last_scale_dim = scales[rank - 1];
    return layout;
  }

  Status CheckZeros(const Tensor& zeros, const Shape& scales) const {
    Shape expected = scales;
    if (packed_in_bytes()) expected[scales.rank() - 1] = (scales[scales.rank() - 1] + 1) / 2;
    if (zeros.type() == type_ && zeros.shape() == expected) return Status();
    return InvalidArgumentError("zero_points must be {} of shape {}, found {} of shape {}",
                                DataTypeName(type_), expected.ToString(), DataTypeName(zeros.type()),
                                zeros.shape().ToString());
  }

  static int64_t IndexAt(const Tensor& indices, int64_t i) {
    return indices.type() == DataType::kInt64 ? indices.data<int64_t>()[i] : indices.data<int32_t>()[i];
  }

  static Status CheckIndices(const Tensor& indices, int64_t dim) {
    for (int64_t i = 0; i < indices.num_elements(); ++i) {
      const int64_t index = IndexAt(indices, i);
      if (index < -dim || index >= dim) {
        return InvalidArgumentError("index {} is out of range [{}, {})", index, -dim, dim);
      }
    }
    return Status();
  }

  int Quant(const Tensor& tensor, int64_t index) const {
    const uint8_t* bytes = static_cast<const uint8_t*>(tensor.raw_data());
    return bits_ == 8 ? bytes[index] : Nibble(bytes, index, type_ == DataType::kInt4);
  }

  // Value number `flat` of the whole tensor.
  float Dequantize(const Tensor& data, const Tensor& scales, const Tensor* zeros, const Layout& layout,
                   int64_t flat) const {
    const int64_t within = flat % layout.quantize_stride;
    const int64_t row = flat / layout.quantize_stride;
    const int64_t block = row % layout.quantize_dim / block_size_;
    const int64_t scale =
        (row / layout.quantize_dim * layout.blocks + block) * layout.quantize_stride + within;
    int zero = type_ == DataType::kUint8 ? 1 << (bits_ - 1) : 0;
    if (zeros && packed_in_bytes()) {
      // Every last dimension begins with a fresh byte.
      const int64_t packed_dim = (layout.last_scale_dim + 1) / 2 * 2;
      zero = Quant(*zeros, scale / layout.last_scale_dim * packed_dim + scale % layout.last_scale_dim);
    } else if (zeros) {
      zero = Quant(*zeros, scale);
    }
    return static_cast<float>(Quant(data, flat) - zero) * LoadFloat(scales, scale);
  }

  int64_t bits_;
  int64_t block_size_;
  int64_t gather_axis_;
  int64_t quantize_axis_;
  DataType type_;
};

}  // namespace

void RegisterGatherBlockQuantized(KernelRegistry& registry) {
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16}) {
    registry.Add(KernelDef("GatherBlockQuantized", kMsDomain)
                     .Input(kData, {DataType::kUint8, DataType::kInt4, DataType::kUint4})
                     .Input(kIndices, kIndexTypes)
                     .Input(kScales, type)
                     .Input(kZeroPoints, {DataType::kUint8, DataType::kInt4, DataType::kUint4})
                     .Output(0, type),
                 CreateKernel<GatherBlockQuantized>);
  }
}

}  // namespace lamina
