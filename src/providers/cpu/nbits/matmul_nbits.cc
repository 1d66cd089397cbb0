// MatMulNBits (com.microsoft): Y = A W^T + bias with W [N, K] in blocks of 2-, 4- or 8-bit weights.
#include <algorithm>
#include <memory>

#include "providers/cpu/cpu_kernels.h"
#include "providers/cpu/nbits/nbits_matrix.h"
#include "providers/cpu/nbits/nbits_pack.h"
#include "providers/cpu/simd/vec_math.h"
#include "providers/cpu/workspace_bounds.h"

namespace lamina {
namespace {

constexpr int kA = 0, kB = 1, kScales = 2, kZeroPoints = 3, kGroupIndex = 4, kBias = 5;

// Workspace slots.
constexpr int kActivations = 0;
constexpr int kPackedB = 1;  // where B is no constant

constexpr int kInt8AccuracyLevel = 4;

class MatMulNBits : public Kernel {
 public:
  explicit MatMulNBits(const NodeInfo& node)
      : matrix_(MatrixOf(node)), blocks_of_row_(BlocksOfRow(node)), prepacks_(HasConstantWeights(node)) {
    if (node.HasInput(kZeroPoints)) zero_type_ = node.input_type(kZeroPoints).element;
  }

  static Status Validate(const NodeInfo& node) {
    return CheckAttributes(node).WithContext(fmt::format("node '{}': MatMulNBits", node.name()));
  }

  static Status Workspace(const NodeInfo& node, WorkspaceRequirements& requirements) {
    const NBitsMatrix matrix = MatrixOf(node);
    LAMINA_ASSIGN_OR_RETURN(const Shape a, LargestInputShape(node, kA));
    const int64_t rows = a.rank() == 0 ? 0 : a.num_elements(0, a.rank() - 1);
    LAMINA_RETURN_IF_ERROR(
        requirements.Add(kActivations, matrix.WorkspaceBytes(node.input_type(kA).element, rows)));
    if (HasConstantWeights(node)) return Status();
    return requirements.Add(kPackedB, static_cast<size_t>(matrix.format().packed_bytes()));
  }
  Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                      WorkspaceRequirements& requirements) const override {
    return Workspace(node, requirements);
  }

  Status DeclarePrepack(const NodeInfo&, int input, PrepackDeclaration& declaration) const override {
    if (input != kB || !prepacks_) return Status();
    declaration.prepack = true;
    declaration.packed_bytes = static_cast<uint64_t>(matrix_.format().packed_bytes());
    declaration.absorbed_inputs = (1u << kScales) | (has_zeros() ? 1u << kZeroPoints : 0u);
    return Status();
  }

  Status PrePackWeight(int, PrepackContext& context, void* packed, void*) const override {
    return Pack(context.threads(), context.Constant(kB), context.Constant(kScales),
                has_zeros() ? context.Constant(kZeroPoints) : nullptr, packed);
  }

  Status Compute(KernelContext& context) const override {
    const NBitsFormat& format = matrix_.format();
    const Tensor& a = *context.Input(kA);
    const Tensor* bias = context.num_inputs() > kBias ? context.Input(kBias) : nullptr;
    const int rank = a.shape().rank();
    if (rank == 0 || a.shape()[rank - 1] != format.k) {
      return InvalidArgumentError("the last dimension of A must be K = {}, found shape {}", format.k,
                                  a.shape().ToString());
    }
    if (bias && bias->shape() != Shape{format.n}) {
      return InvalidArgumentError("bias must have shape [{}], found {}", format.n, bias->shape().ToString());
    }
    const void* packed = context.Packed(kB).data;
    if (!packed) {
      LAMINA_ASSIGN_OR_RETURN(void* memory,
                              context.GetScratchBuffer(kPackedB, static_cast<size_t>(format.packed_bytes())));
      LAMINA_RETURN_IF_ERROR(Pack(context.threads(), context.Input(kB), context.Input(kScales),
                                  has_zeros() ? context.Input(kZeroPoints) : nullptr, memory));
      packed = memory;
    }
    Shape output_shape = a.shape();
    output_shape[rank - 1] = format.n;
    LAMINA_ASSIGN_OR_RETURN(Tensor * output, context.Output(0, output_shape));
    const DataType type = a.type();
    const int64_t rows = a.shape().num_elements(0, rank - 1);
    LAMINA_ASSIGN_OR_RETURN(void* workspace,
                            context.GetScratchBuffer(kActivations, matrix_.WorkspaceBytes(type, rows)));
    const int64_t element_bytes = DataTypeBits(type) / 8;
    const char* bias_data = bias ? static_cast<const char*>(bias->raw_data()) : nullptr;
    char* y = static_cast<char*>(output->mutable_raw_data());
    matrix_.Multiply(context.threads(), type, a.raw_data(), format.k, rows, packed, workspace,
                     [&](int64_t row, int64_t column, int64_t count, const float* values) {
                       char* target = y + (row * format.n + column) * element_bytes;
                       if (!bias_data) return ConvertFromFloat(type, values, target, count);
                       constexpr int64_t kRun = 64;
                       for (int64_t i = 0; i < count; i += kRun) {
                         float sums[kRun];
                         const int64_t run = std::min(kRun, count - i);
                         ConvertToFloat(type, bias_data + (column + i) * element_bytes, sums, run);
                         for (int64_t j = 0; j < run; ++j) sums[j] += values[i + j];
                         ConvertFromFloat(type, sums, target + i * element_bytes, run);
                       }
                     });
    return Status();
  }

 private:
  static Status CheckAttributes(const NodeInfo& node) {
    const int64_t bits = node.Int("bits", 4);
    const int64_t block_size = node.Int("block_size", 0);
    if (bits != 2 && bits != 4 && bits != 8) {
      return UnsupportedError("Only 2b, 4b and 8b quantization is supported, found {} bits", bits);
    }
    if (block_size != 16 && block_size != 32 && block_size != 64 && block_size != 128 && block_size != 256) {
      return UnsupportedError("Only block sizes 16, 32, 64, 128, and 256 are supported, found {}",
                              block_size);
    }
    if (node.Int("K", 0) <= 0 || node.Int("N", 0) <= 0) {
      return InvalidModelError("K and N must be positive, found {} and {}", node.Int("K", 0),
                               node.Int("N", 0));
    }
    // Bounds that keep every product of sizes far from overflow.
    constexpr int64_t kMaxDimension = int64_t{1} << 31;
    if (node.Int("K", 0) >= kMaxDimension || node.Int("N", 0) >= kMaxDimension) {
      return InvalidModelError("K and N must be below 2^31, found {} and {}", node.Int("K", 0),
                               node.Int("N", 0));
    }
    if (node.HasInput(kGroupIndex)) return UnsupportedError("the deprecated input g_idx is not supported");
    if (node.Int("weight_prepacked", 0) != 0) {
      return UnsupportedError("weight_prepacked={}: only weights in the standard layout are supported",
                              node.Int("weight_prepacked", 0));
    }
    return Status();
  }

  static int64_t BlocksOfRow(const NodeInfo& node) {
    return (node.Int("K", 0) + node.Int("block_size", 0) - 1) / node.Int("block_size", 0);
  }

  static NBitsMatrix MatrixOf(const NodeInfo& node) {
    NBitsFormat format;
    format.bits = static_cast<int>(node.Int("bits", 4));
    format.n = node.Int("N", 0);
    format.k = node.Int("K", 0);
    format.block_size = node.Int("block_size", 0);
    format.scale_type = node.input_type(kScales).element;
    if (node.HasInput(kZeroPoints)) {
      const bool packed = node.input_type(kZeroPoints).element == DataType::kUint8;
      format.zeros = packed ? NBitsZeros::kBytes : NBitsZeros::kFloats;
    }
    return NBitsMatrix(ActiveIsa(), format, node.Int("accuracy_level", 0) == kInt8AccuracyLevel);
  }

  static bool HasConstantWeights(const NodeInfo& node) {
    return node.is_constant_input(kB) && node.is_constant_input(kScales) &&
           (!node.HasInput(kZeroPoints) || node.is_constant_input(kZeroPoints));
  }

  bool has_zeros() const { return matrix_.format().zeros != NBitsZeros::kNone; }

  Status Pack(ThreadPool& threads, const Tensor* b, const Tensor* scales, const Tensor* zeros,
              void* packed) const {
    const NBitsFormat& format = matrix_.format();
    NBitsSource source;
    source.row_bytes = blocks_of_row_ * format.block_size * format.bits / 8;
    source.blocks_of_row = blocks_of_row_;
    source.zero_row_bits = (blocks_of_row_ * format.bits + 7) / 8 * 8;
    source.zero_type = zero_type_;
    LAMINA_RETURN_IF_ERROR(CheckCount("B", *b, format.n * source.row_bytes));
    LAMINA_RETURN_IF_ERROR(CheckCount("scales", *scales, format.n * blocks_of_row_));
    source.weights = b->data<uint8_t>();
    source.scales = scales->raw_data();
    if (zeros) {
      const bool packed_zeros = format.zeros == NBitsZeros::kBytes;
      const int64_t count = format.n * (packed_zeros ? source.zero_row_bits / 8 : blocks_of_row_);
      LAMINA_RETURN_IF_ERROR(CheckCount("zero_points", *zeros, count));
      source.zeros = zeros->raw_data();
    }
    PackNBits(threads, format, source, packed);
    return Status();
  }

  Status CheckCount(const char* name, const Tensor& tensor, int64_t expected) const {
    if (tensor.num_elements() == expected) return Status();
    const NBitsFormat& format = matrix_.format();
    return InvalidArgumentError(
        "{} must have {} elements for N = {}, K = {}, block_size = {}, bits = {}, found shape {}", name,
        expected, format.n, format.k, format.block_size, format.bits, tensor.shape().ToString());
  }

  NBitsMatrix matrix_;
  int64_t blocks_of_row_;
  bool prepacks_;
  DataType zero_type_ = DataType::kUint8;
};

}  // namespace

void RegisterMatMulNBits(KernelRegistry& registry) {
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16}) {
    registry.Add(KernelDef("MatMulNBits", kMsDomain)
                     .Input(kA, type)
                     .Input(kB, DataType::kUint8)
                     .Input(kScales, type)
                     .Input(kZeroPoints, kHalfAndFloatTypes | DataType::kUint8)
                     .Input(kBias, type)
                     .Output(0, type),
                 CreateKernel<MatMulNBits>, EstimateWorkspace<MatMulNBits>);
  }
}

}  // namespace lamina
