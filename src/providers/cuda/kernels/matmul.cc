// MatMul and Gemm. A constant matrix is packed at load as rows [n, k], which is what both the stream of
// weights at decode and the tiles at prefill read; other matrices are multiplied as they are.
#include <algorithm>

#include "providers/cuda/kernels/cuda_kernel.h"
#include "providers/cuda/kernels/families.h"
#include "providers/cuda/kernels/loops.h"
#include "providers/cuda/kernels/product_workspace.h"

namespace lamina::cuda {
namespace {

// A constant [k, n] (transposed: [n, k]) on its way to a packed one.
struct PackedMatrix {
  bool usable = false;
  bool transposed = false;
  int64_t n = 0;
  int64_t k = 0;
  int64_t packed_k = 0;  // k, padded to whole 16 bytes
  DataType type = DataType::kFloat;

  static PackedMatrix Of(const NodeInfo& node, int input, bool transposed) {
    PackedMatrix matrix;
    const ShapeBounds* bounds = node.input_bounds(input);
    if (!node.is_constant_input(input) || !bounds || bounds->rank() != 2 || !bounds->bounded()) return matrix;
    const Shape shape = bounds->Max();
    matrix.usable = true;
    matrix.transposed = transposed;
    matrix.k = shape[transposed ? 1 : 0];
    matrix.n = shape[transposed ? 0 : 1];
    matrix.type = node.input_type(input).element;
    matrix.packed_k = PackedRowElements(matrix.k, matrix.type);
    return matrix;
  }
  uint64_t bytes() const { return static_cast<uint64_t>(n * packed_k * ElementBytesOf(type)); }
};

class PackingKernel : public CudaKernel {
 public:
  PackingKernel(const NodeInfo& node, const KernelLauncher& launcher, bool transposed)
      : CudaKernel(node, launcher), matrix_(PackedMatrix::Of(node, kMatrix, transposed)) {}

  Status DeclarePrepack(const NodeInfo&, int input, PrepackDeclaration& declaration) const override {
    if (input != kMatrix || !matrix_.usable) return Status();
    declaration.prepack = true;
    declaration.required = true;
    declaration.packed_bytes = matrix_.bytes();
    return Status();
  }

  Status PrePackWeight(int input, PrepackContext& context, void* packed, void*) const override {
    const PackProductArguments arguments{ElementBytesOf(matrix_.type),
                                         context.Constant(input)->raw_data(),
                                         matrix_.transposed ? 1 : 0,
                                         packed,
                                         matrix_.n,
                                         matrix_.k,
                                         matrix_.packed_k};
    return Launch(context.stream(), "pack_product", &KernelApi::pack_product, arguments);
  }

 protected:
  static constexpr int kMatrix = 1;

  const PackedMatrix& matrix() const { return matrix_; }

  // The arguments of y = x B for rows of x that follow each other.
  Result<ProductArguments> PackedProduct(KernelContext& context, const Tensor& x, int64_t rows,
                                         const void* packed, Tensor& y) const {
    ProductArguments arguments{};
    arguments.type = ElementTypeOf(x.type());
    arguments.x = x.raw_data();
    arguments.b = packed;
    arguments.y = y.mutable_raw_data();
    arguments.m = rows;
    arguments.n = matrix_.n;
    arguments.k = matrix_.k;
    arguments.x_stride = matrix_.k;
    arguments.packed_k = matrix_.packed_k;
    arguments.y_stride = matrix_.n;
    arguments.alpha = 1;
    LAMINA_RETURN_IF_ERROR(ProductWorkspace::Take(context, arguments));
    return arguments;
  }

 private:
  PackedMatrix matrix_;
};

class MatMul : public PackingKernel {
 public:
  MatMul(const NodeInfo& node, const KernelLauncher& launcher) : PackingKernel(node, launcher, false) {}

  static Status Workspace(const NodeInfo& node, WorkspaceRequirements& requirements) {
    const PackedMatrix matrix = PackedMatrix::Of(node, kMatrix, false);
    if (!matrix.usable) return Status();
    LAMINA_ASSIGN_OR_RETURN(const Shape x, LargestInput(node, 0));
    const int64_t rows = x.rank() < 2 ? 1 : x.num_elements(0, x.rank() - 1);
    return ProductWorkspace::Declare(rows, matrix.n, matrix.k, requirements);
  }
  Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                      WorkspaceRequirements& requirements) const override {
    return Workspace(node, requirements);
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, Required(context, 0));
    const void* packed = context.Packed(kMatrix).data;
    if (!packed) return MultiplyAsTheyAre(context, *x);
    const Shape& shape = x->shape();
    if (shape.rank() == 0 || shape[shape.rank() - 1] != matrix().k) {
      return InvalidArgumentError("inner dimensions differ: {} and [{},{}]", shape.ToString(), matrix().k,
                                  matrix().n);
    }
    Shape out_shape = shape;
    out_shape[shape.rank() - 1] = matrix().n;
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, out_shape));
    if (!y || y->num_elements() == 0) return Status();
    const int64_t rows = shape.num_elements(0, shape.rank() - 1);
    LAMINA_ASSIGN_OR_RETURN(const ProductArguments arguments, PackedProduct(context, *x, rows, packed, *y));
    return Launch(context.stream(), "product", &KernelApi::product, arguments);
  }

 private:
  Status MultiplyAsTheyAre(KernelContext& context, const Tensor& x) const {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* b, Required(context, kMatrix));
    const Shape& left = x.shape();
    const Shape& right = b->shape();
    if (left.rank() == 0 || right.rank() == 0) return InvalidArgumentError("a scalar operand");
    BatchedProductArguments arguments{};
    // A vector is one row on the left and one column on the right.
    arguments.m = left.rank() == 1 ? 1 : left[left.rank() - 2];
    arguments.k = left[left.rank() - 1];
    arguments.n = right.rank() == 1 ? 1 : right[right.rank() - 1];
    if (right[std::max(0, right.rank() - 2)] != arguments.k) {
      return InvalidArgumentError("inner dimensions differ: {} and {}", left.ToString(), right.ToString());
    }
    const auto batch_of = [](const Shape& shape) {
      return Shape(shape.dims().first(static_cast<size_t>(std::max(0, shape.rank() - 2))));
    };
    LAMINA_ASSIGN_OR_RETURN(const Shape batch, BroadcastShape(batch_of(left), batch_of(right)));
    Shape out_shape = batch;
    if (left.rank() > 1) out_shape.Append(arguments.m);
    if (right.rank() > 1) out_shape.Append(arguments.n);
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, out_shape));
    if (!y || y->num_elements() == 0) return Status();

    const auto strides_of = [&](const Shape& of, int64_t matrix_elements) {
      AxisStrides strides = BroadcastStrides(of, batch);
      for (int64_t& stride : strides) stride *= matrix_elements;
      return strides;
    };
    const AxisStrides x_strides = strides_of(batch_of(left), arguments.m * arguments.k);
    const AxisStrides b_strides = strides_of(batch_of(right), arguments.k * arguments.n);
    const AxisStrides y_strides = strides_of(batch, arguments.m * arguments.n);
    arguments.type = ElementTypeOf(x.type());
    arguments.x = x.raw_data();
    arguments.b = b->raw_data();
    arguments.y = y->mutable_raw_data();
    arguments.x_row_stride = arguments.k;
    arguments.x_column_stride = 1;
    arguments.b_row_stride = arguments.n;
    arguments.b_column_stride = 1;
    arguments.y_row_stride = arguments.n;
    LAMINA_ASSIGN_OR_RETURN(arguments.batch, MakeLoops(batch, {&x_strides, &b_strides, &y_strides}));
    return Launch(context.stream(), "batched_product", &KernelApi::batched_product, arguments);
  }
};

class Gemm : public PackingKernel {
 public:
  Gemm(const NodeInfo& node, const KernelLauncher& launcher)
      : PackingKernel(node, launcher, node.Int("transB", 0) != 0),
        alpha_(node.Float("alpha", 1)),
        beta_(node.Float("beta", 1)) {}

  static Status Validate(const NodeInfo& node) {
    if (node.Int("transA", 0) != 0) return UnsupportedError("transA");
    if (!PackedMatrix::Of(node, kMatrix, node.Int("transB", 0) != 0).usable) {
      return UnsupportedError("B that is no constant");
    }
    return Status();
  }

  static Status Workspace(const NodeInfo& node, WorkspaceRequirements& requirements) {
    const PackedMatrix matrix = PackedMatrix::Of(node, kMatrix, node.Int("transB", 0) != 0);
    LAMINA_ASSIGN_OR_RETURN(const Shape x, LargestInput(node, 0));
    return ProductWorkspace::Declare(x.rank() == 2 ? x[0] : 1, matrix.n, matrix.k, requirements);
  }
  Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                      WorkspaceRequirements& requirements) const override {
    return Workspace(node, requirements);
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, Required(context, 0));
    const Tensor* c = Optional(context, 2);
    const Shape& shape = x->shape();
    if (shape.rank() != 2 || shape[1] != matrix().k) {
      return InvalidArgumentError("A must have shape [m,{}], found {}", matrix().k, shape.ToString());
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, Shape{shape[0], matrix().n}));
    if (!y || y->num_elements() == 0) return Status();
    LAMINA_ASSIGN_OR_RETURN(ProductArguments arguments,
                            PackedProduct(context, *x, shape[0], context.Packed(kMatrix).data, *y));
    arguments.alpha = alpha_;
    arguments.beta = beta_;
    if (c) {
      const Shape& of = c->shape();
      const int64_t rows = of.rank() >= 2 ? of[of.rank() - 2] : 1;
      const int64_t columns = of.rank() >= 1 ? of[of.rank() - 1] : 1;
      if (of.rank() > 2 || (rows != 1 && rows != shape[0]) || (columns != 1 && columns != matrix().n)) {
        return InvalidArgumentError("C of shape {} does not broadcast to [{},{}]", of.ToString(), shape[0],
                                    matrix().n);
      }
      arguments.c = c->raw_data();
      arguments.c_row_stride = rows == 1 ? 0 : columns;
      arguments.c_column_stride = columns == 1 ? 0 : 1;
    }
    return Launch(context.stream(), "product", &KernelApi::product, arguments);
  }

 private:
  float alpha_;
  float beta_;
};

}  // namespace

void RegisterMatMul(KernelRegistrar& registrar) {
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16}) {
    registrar.Add<MatMul>(KernelDef("MatMul").Input(0, type).Input(1, type).Output(0, type));
    registrar.Add<Gemm>(
        KernelDef("Gemm").Since(7).Input(0, type).Input(1, type).Input(2, type).Output(0, type));
  }
}

}  // namespace lamina::cuda
