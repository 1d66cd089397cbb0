// MatMulNBits (com.microsoft): Y = A W^T + bias with W [N, K] in blocks of 2-, 4- or 8-bit weights. Those of
// 4 bits for float16 are packed for the matrix units, others stay as the model stores them. A few rows read
// them directly; for many they are unpacked, some rows of W at a time, and multiplied as any matrix.
#include <algorithm>

#include "providers/cuda/kernels/cuda_kernel.h"
#include "providers/cuda/kernels/families.h"
#include "providers/cuda/kernels/product_workspace.h"

namespace lamina::cuda {
namespace {

constexpr int kA = 0, kB = 1, kScales = 2, kZeroPoints = 3, kGroupIndex = 4, kBias = 5;

// Workspace slots.
constexpr int kUnpacked = 0;  // rows of W
constexpr int kRounded = 1;   // activations in 8 bits

constexpr int64_t kInt8AccuracyLevel = 4;

// Rows of A up to which weights are read directly for each; of packed ones they are read once for 8 of them.
constexpr int64_t kMaxDirectRows = 4;
constexpr int64_t kMaxPackedRows = 16;
// Compute capability 8.0 has the instructions that packed weights are for.
constexpr int kMatrixUnits = 8;
// Of W at a time: what the second-level cache holds.
constexpr int64_t kUnpackedBytes = int64_t{32} << 20;

class MatMulNBits : public CudaKernel {
 public:
  MatMulNBits(const NodeInfo& node, const KernelLauncher& launcher)
      : CudaKernel(node, launcher),
        bits_(node.Int("bits", 4)),
        block_size_(node.Int("block_size", 0)),
        n_(node.Int("N", 0)),
        k_(node.Int("K", 0)),
        rounds_(RoundsActivations(node)),
        packs_(Packs(node)),
        has_zeros_(node.HasInput(kZeroPoints)),
        type_(node.input_type(kA).element) {}

  static Status Validate(const NodeInfo& node) {
    const int64_t bits = node.Int("bits", 4);
    const int64_t block_size = node.Int("block_size", 0);
    if (bits != 2 && bits != 4 && bits != 8) {
      return UnsupportedError("weights of {} bits: 2, 4 and 8 are supported", bits);
    }
    if (block_size < 16 || block_size > 256 || (block_size & (block_size - 1)) != 0) {
      return UnsupportedError("block size {}: 16, 32, 64, 128 and 256 are supported", block_size);
    }
    constexpr int64_t kMaxDimension = int64_t{1} << 31;  // keeps products of sizes far from overflow
    for (const char* name : {"K", "N"}) {
      const int64_t size = node.Int(name, 0);
      if (size <= 0 || size >= kMaxDimension) {
        return InvalidModelError("{} must be positive and below 2^31, found {}", name, size);
      }
    }
    if (node.HasInput(kGroupIndex)) return UnsupportedError("the deprecated input g_idx is not supported");
    if (node.Int("weight_prepacked", 0) != 0) {
      return UnsupportedError("weight_prepacked={}: only weights in the standard layout are supported",
                              node.Int("weight_prepacked", 0));
    }
    return Status();
  }

  static Status Workspace(const NodeInfo& node, WorkspaceRequirements& requirements) {
    LAMINA_ASSIGN_OR_RETURN(const Shape a, LargestInput(node, kA));
    const int64_t rows = a.rank() == 0 ? 0 : a.num_elements(0, a.rank() - 1);
    const int64_t n = node.Int("N", 0);
    const int64_t k = node.Int("K", 0);
    const DataType type = node.input_type(kA).element;
    if (RoundsActivations(node)) {
      LAMINA_RETURN_IF_ERROR(
          requirements.Add(kRounded, static_cast<size_t>(a.num_elements() * ElementBytesOf(type))));
    }
    if (rows <= kMaxDirectRows) return Status();
    const int64_t unpacked = RowsAtATime(n, k, type);
    LAMINA_RETURN_IF_ERROR(requirements.Add(
        kUnpacked, static_cast<size_t>(unpacked * PackedRowElements(k, type) * ElementBytesOf(type))));
    return ProductWorkspace::Declare(rows, unpacked, k, requirements);
  }
  Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                      WorkspaceRequirements& requirements) const override {
    return Workspace(node, requirements);
  }

  Status DeclarePrepack(const NodeInfo&, int input, PrepackDeclaration& declaration) const override {
    if (input != kB || !packs_) return Status();
    declaration.prepack = true;
    declaration.packed_bytes = FourBitsPackedBytes(n_, k_, block_size_, has_zeros_);
    declaration.absorbed_inputs = 1u << kScales | (has_zeros_ ? 1u << kZeroPoints : 0u);
    return Status();
  }

  Status PrePackWeight(int, PrepackContext& context, void* packed, void*) const override {
    LAMINA_ASSIGN_OR_RETURN(const NBitsMatrixArguments w,
                            Matrix(context.Constant(kB), context.Constant(kScales),
                                   has_zeros_ ? context.Constant(kZeroPoints) : nullptr));
    const PackFourBitsArguments arguments{w, packed};
    return Launch(context.stream(), "pack_four_bits", &KernelApi::pack_four_bits, arguments);
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* a, Required(context, kA));
    const Tensor* bias = Optional(context, kBias);
    const Shape& shape = a->shape();
    const int rank = shape.rank();
    if (rank == 0 || shape[rank - 1] != k_) {
      return InvalidArgumentError("the last dimension of A must be K = {}, found shape {}", k_,
                                  shape.ToString());
    }
    if (bias && bias->shape() != Shape{n_}) {
      return InvalidArgumentError("bias must have shape [{}], found {}", n_, bias->shape().ToString());
    }
    Shape out_shape = shape;
    out_shape[rank - 1] = n_;
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, out_shape));
    if (!y || y->num_elements() == 0) return Status();
    const int64_t rows = shape.num_elements(0, rank - 1);
    const void* x = a->raw_data();
    if (rounds_) {
      LAMINA_ASSIGN_OR_RETURN(x, Rounded(context, *a, rows));
    }
    const void* packed = context.Packed(kB).data;
    if (packed && rows <= kMaxPackedRows) {
      const FourBitsProductArguments arguments{x,
                                               y->mutable_raw_data(),
                                               rows,
                                               n_,
                                               k_,
                                               bias ? bias->raw_data() : nullptr,
                                               packed,
                                               static_cast<int32_t>(block_size_),
                                               has_zeros_ ? 1 : 0};
      return Launch(context.stream(), "four_bits_product", &KernelApi::four_bits_product, arguments);
    }
    if (packed) {
      return MultiplyUnpacked(context, x, rows, bias, *y, [&](int64_t first, int64_t count, void* out) {
        const FourBitsUnpackArguments arguments{
            packed, k_,    static_cast<int32_t>(block_size_), has_zeros_ ? 1 : 0,
            first,  count, PackedRowElements(k_, type_),      out};
        return Launch(context.stream(), "four_bits_unpack", &KernelApi::four_bits_unpack, arguments);
      });
    }
    LAMINA_ASSIGN_OR_RETURN(
        const NBitsMatrixArguments w,
        Matrix(Optional(context, kB), Optional(context, kScales), Optional(context, kZeroPoints)));
    if (rows > kMaxDirectRows) {
      return MultiplyUnpacked(context, x, rows, bias, *y, [&](int64_t first, int64_t count, void* out) {
        const NBitsUnpackArguments arguments{ElementTypeOf(type_),         w,  first, count,
                                             PackedRowElements(k_, type_), out};
        return Launch(context.stream(), "nbits_unpack", &KernelApi::nbits_unpack, arguments);
      });
    }
    const NBitsProductArguments arguments{
        ElementTypeOf(type_), x, y->mutable_raw_data(), rows, bias ? bias->raw_data() : nullptr, w};
    return Launch(context.stream(), "nbits_product", &KernelApi::nbits_product, arguments);
  }

 private:
  // Whether the weights are packed for the matrix units.
  static bool Packs(const NodeInfo& node) {
    const bool has_zeros = node.HasInput(kZeroPoints);
    const bool fits = !has_zeros || (node.is_constant_input(kZeroPoints) &&
                                     node.input_type(kZeroPoints).element == DataType::kUint8);
    return fits && node.Int("bits", 4) == 4 && node.Int("block_size", 0) % 32 == 0 &&
           node.input_type(kA).element == DataType::kFloat16 && node.is_constant_input(kB) &&
           node.is_constant_input(kScales) && node.device().compute_capability_major >= kMatrixUnits;
  }

  static bool RoundsActivations(const NodeInfo& node) {
    return node.Int("accuracy_level", 0) == kInt8AccuracyLevel;
  }

  Result<const void*> Rounded(KernelContext& context, const Tensor& a, int64_t rows) const {
    LAMINA_ASSIGN_OR_RETURN(void* rounded,
                            context.GetScratchBuffer(kRounded, static_cast<size_t>(a.size_bytes())));
    const RoundActivationsArguments arguments{ElementTypeOf(type_), a.raw_data(), rounded, rows, k_,
                                              block_size_};
    LAMINA_RETURN_IF_ERROR(
        Launch(context.stream(), "round_activations", &KernelApi::round_activations, arguments));
    return static_cast<const void*>(rounded);
  }

  static int64_t RowsAtATime(int64_t n, int64_t k, DataType type) {
    constexpr int64_t kTile = 64;
    const int64_t row_bytes = PackedRowElements(k, type) * ElementBytesOf(type);
    return std::min(n, std::max(kTile, kUnpackedBytes / row_bytes / kTile * kTile));
  }

  // `zeros` null: the default.
  Result<NBitsMatrixArguments> Matrix(const Tensor* b, const Tensor* scales, const Tensor* zeros) const {
    if (!b || !scales) return InvalidArgumentError("B or scales are absent");
    NBitsMatrixArguments w{};
    w.bits = static_cast<int32_t>(bits_);
    w.block_size = static_cast<int32_t>(block_size_);
    w.n = n_;
    w.k = k_;
    w.blocks = (k_ + block_size_ - 1) / block_size_;
    w.data = static_cast<const uint8_t*>(b->raw_data());
    w.scales = scales->raw_data();
    LAMINA_RETURN_IF_ERROR(CheckCount("B", *b, n_ * w.blocks * block_size_ * bits_ / 8));
    LAMINA_RETURN_IF_ERROR(CheckCount("scales", *scales, n_ * w.blocks));
    if (zeros) {
      const bool packed = zeros->type() == DataType::kUint8;
      const int64_t of_row = packed ? (w.blocks * bits_ + 7) / 8 : w.blocks;
      LAMINA_RETURN_IF_ERROR(CheckCount("zero_points", *zeros, n_ * of_row));
      w.zeros = zeros->raw_data();
      w.zero_type = ElementTypeOf(zeros->type());
    }
    return w;
  }

  Status CheckCount(const char* name, const Tensor& tensor, int64_t expected) const {
    if (tensor.num_elements() == expected) return Status();
    return InvalidArgumentError(
        "{} must have {} elements for N = {}, K = {}, block_size = {}, bits = {}, found shape {}", name,
        expected, n_, k_, block_size_, bits_, tensor.shape().ToString());
  }

  // `unpack(first, count, out)` launches the unpacking of rows [first, first + count) of W.
  template <typename Unpack>
  Status MultiplyUnpacked(KernelContext& context, const void* x, int64_t rows, const Tensor* bias, Tensor& y,
                          Unpack unpack) const {
    const int64_t element_bytes = ElementBytesOf(type_);
    const int64_t packed_k = PackedRowElements(k_, type_);
    const int64_t at_a_time = RowsAtATime(n_, k_, type_);
    LAMINA_ASSIGN_OR_RETURN(
        void* unpacked,
        context.GetScratchBuffer(kUnpacked, static_cast<size_t>(at_a_time * packed_k * element_bytes)));
    ProductArguments product{};
    product.type = ElementTypeOf(type_);
    product.x = x;
    product.b = unpacked;
    product.is_b_fresh = 1;
    product.m = rows;
    product.k = k_;
    product.x_stride = k_;
    product.packed_k = packed_k;
    product.y_stride = n_;
    product.alpha = 1;
    product.beta = 1;
    product.n = at_a_time;
    LAMINA_RETURN_IF_ERROR(ProductWorkspace::Take(context, product));
    for (int64_t first = 0; first < n_; first += at_a_time) {
      product.n = std::min(at_a_time, n_ - first);
      LAMINA_RETURN_IF_ERROR(unpack(first, product.n, unpacked));
      product.y = static_cast<std::byte*>(y.mutable_raw_data()) + first * element_bytes;
      if (bias) {
        product.c = static_cast<const std::byte*>(bias->raw_data()) + first * element_bytes;
        product.c_column_stride = 1;
      }
      LAMINA_RETURN_IF_ERROR(Launch(context.stream(), "product", &KernelApi::product, product));
    }
    return Status();
  }

  int64_t bits_;
  int64_t block_size_;
  int64_t n_;
  int64_t k_;
  bool rounds_;
  bool packs_;
  bool has_zeros_;
  DataType type_;
};

}  // namespace

void RegisterMatMulNBits(KernelRegistrar& registrar) {
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16}) {
    registrar.Add<MatMulNBits>(KernelDef("MatMulNBits", kMsDomain)
                                   .Input(kA, type)
                                   .Input(kB, DataType::kUint8)
                                   .Input(kScales, type)
                                   .Input(kZeroPoints, kHalfAndFloatTypes | DataType::kUint8)
                                   .Input(kBias, type)
                                   .Output(0, type));
  }
}

}  // namespace lamina::cuda
