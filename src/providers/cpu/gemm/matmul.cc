// MatMul (ai.onnx 1 and later): numpy's matmul, with broadcast batch dimensions.
#include <algorithm>
#include <memory>

#include "base/element_type.h"
#include "provider/kernel_registry.h"
#include "providers/cpu/gemm/packed_matrix.h"
#include "providers/cpu/gemm/plain_gemm.h"
#include "providers/cpu/simd/vec_math.h"
#include "providers/cpu/workspace_bounds.h"

namespace lamina {
namespace {

constexpr int kFloatsOfA = 0;  // workspace slot: A as float where it is stored in 16 bits

constexpr TypeSet kMatMulTypes =
    kFloatTypes | TypeSet{DataType::kInt32, DataType::kInt64, DataType::kUint32, DataType::kUint64};

bool IsHalf(DataType type) { return type == DataType::kFloat16 || type == DataType::kBfloat16; }

// How A [.., m, k] and B [.., k, n] meet. Where B has no batch, A's batch is part of m.
struct MatMulShapes {
  GemmShape gemm;
  Shape output;
  Shape batch;    // of the output, where gemm.batch counts it
  Shape a_batch;  // padded to the rank of `batch`
  Shape b_batch;

  // The number of the matrix of A or B (by its padded batch dimensions) for a matrix of the output.
  int64_t MatrixIndex(const Shape& operand_batch, int64_t output_index) const {
    int64_t index = 0;
    int64_t stride = 1;
    for (int axis = batch.rank() - 1; axis >= 0; --axis) {
      const int64_t position = output_index % batch[axis];
      output_index /= batch[axis];
      if (operand_batch[axis] != 1) index += position * stride;
      stride *= operand_batch[axis];
    }
    return index;
  }
};

Shape PaddedBatch(const Shape& shape, int matrix_axes, int rank) {
  Shape batch;
  const int own = std::max(shape.rank() - matrix_axes, 0);
  for (int i = own; i < rank; ++i) batch.Append(1);
  for (int i = 0; i < own; ++i) batch.Append(shape[i]);
  return batch;
}

Result<MatMulShapes> Match(const Shape& a, const Shape& b) {
  const auto mismatch = [&](const char* why) {
    return InvalidArgumentError("MatMul: {} for shapes {} and {}", why, a.ToString(), b.ToString());
  };
  if (a.rank() == 0 || b.rank() == 0) return mismatch("scalars are not allowed");
  const bool a_is_vector = a.rank() == 1;
  const bool b_is_vector = b.rank() == 1;
  MatMulShapes shapes;
  GemmShape& gemm = shapes.gemm;
  gemm.k = a[a.rank() - 1];
  gemm.m = a_is_vector ? 1 : a[a.rank() - 2];
  gemm.n = b_is_vector ? 1 : b[b.rank() - 1];
  const int64_t b_rows = b_is_vector ? b[0] : b[b.rank() - 2];
  if (b_rows != gemm.k) return mismatch("inner dimensions differ");

  const int batch_rank = std::max({a.rank() - 2, b.rank() - 2, 0});
  shapes.a_batch = PaddedBatch(a, 2, batch_rank);
  shapes.b_batch = PaddedBatch(b, 2, batch_rank);
  for (int i = 0; i < batch_rank; ++i) {
    const int64_t x = shapes.a_batch[i];
    const int64_t y = shapes.b_batch[i];
    if (x != y && x != 1 && y != 1) return mismatch("batch dimensions do not broadcast");
    shapes.batch.Append(x == 1 ? y : x);
  }
  shapes.output = shapes.batch;
  if (!a_is_vector) shapes.output.Append(gemm.m);
  if (!b_is_vector) shapes.output.Append(gemm.n);
  gemm.batch = shapes.batch.num_elements();
  if (b.rank() <= 2) {
    gemm.m *= gemm.batch;
    gemm.batch = 1;
    shapes.batch = shapes.a_batch = shapes.b_batch = Shape();
  }
  return shapes;
}

class MatMul : public Kernel {
 public:
  explicit MatMul(const NodeInfo& node)
      : kernels_(GemmKernelsFor(ActiveIsa())), type_(node.input_type(0).element) {
    const ShapeBounds* b = node.input_bounds(1);
    if (node.is_constant_input(1) && b && b->rank() == 2 && b->bounded()) b_shape_ = b->Max();
  }

  static Status Workspace(const NodeInfo& node, WorkspaceRequirements& requirements) {
    if (!IsHalf(node.input_type(0).element)) return Status();
    LAMINA_ASSIGN_OR_RETURN(const int64_t elements, LargestInputElements(node, 0));
    return requirements.Add(kFloatsOfA, static_cast<size_t>(elements) * sizeof(float));
  }
  Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                      WorkspaceRequirements& requirements) const override {
    return Workspace(node, requirements);
  }

  Status DeclarePrepack(const NodeInfo& node, int input, PrepackDeclaration& declaration) const override {
    if (input != 1 || b_shape_.rank() != 2 || !kHalfAndFloatTypes.Contains(node.input_type(1).element)) {
      return Status();
    }
    declaration.prepack = true;
    declaration.packed_bytes = PackedMatrixBytes(type_, b_shape_[0], b_shape_[1]);
    return Status();
  }

  Status PrePackWeight(int input, PrepackContext& context, void* packed, void*) const override {
    const Tensor* b = context.Constant(input);
    PackMatrix(context.threads(), kernels_, {b->raw_data(), type_, b_shape_[0], b_shape_[1], false}, packed);
    return Status();
  }

  Status Compute(KernelContext& context) const override {
    const Tensor& a = *context.Input(0);
    const Tensor* b = context.Input(1);
    const PackedWeight packed = context.Packed(1);
    LAMINA_ASSIGN_OR_RETURN(const MatMulShapes shapes, Match(a.shape(), packed.data ? b_shape_ : b->shape()));
    LAMINA_ASSIGN_OR_RETURN(Tensor * output, context.Output(0, shapes.output));
    if (output->num_elements() == 0) return Status();
    if (!kHalfAndFloatTypes.Contains(type_)) {
      DispatchType<double, int32_t, int64_t, uint32_t, uint64_t>(type_, [&](auto tag) {
        using T = typename decltype(tag)::type;
        ComputePlain<T>(context.threads(), shapes, a.data<T>(), b->data<T>(), output->mutable_data<T>());
      });
      return Status();
    }
    return ComputeFloat(context, shapes, a, b, packed.data, *output);
  }

 private:
  Status ComputeFloat(KernelContext& context, const MatMulShapes& shapes, const Tensor& a, const Tensor* b,
                      const void* packed, Tensor& output) const {
    const GemmShape& gemm = shapes.gemm;
    const float* a_floats = a.data<float>();
    if (IsHalf(type_)) {
      LAMINA_ASSIGN_OR_RETURN(float* floats, GetScratch<float>(context, kFloatsOfA, a.num_elements()));
      ConvertToFloat(context.threads(), type_, a.raw_data(), floats, a.num_elements());
      a_floats = floats;
    }
    const int64_t element_bytes = DataTypeBits(type_) / 8;
    char* c = static_cast<char*>(output.mutable_raw_data());
    const auto rows_of_a = [&](int64_t batch) {
      return a_floats + shapes.MatrixIndex(shapes.a_batch, batch) * gemm.m * gemm.k;
    };
    const auto store = [&](int64_t batch, int64_t row, int64_t column, int64_t count, const float* values) {
      const int64_t offset = (batch * gemm.m + row) * gemm.n + column;
      ConvertFromFloat(type_, values, c + offset * element_bytes, count);
    };
    if (packed) {
      RunGemm(
          context.threads(), kernels_, gemm, rows_of_a, gemm.k,
          [&](const GemmPanelRequest& request) {
            return PackedPanel(kernels_, type_, packed, gemm.k, request);
          },
          store);
      return Status();
    }
    const char* b_data = static_cast<const char*>(b->raw_data());
    const auto panel_of_b = [&](const GemmPanelRequest& request) {
      const int64_t offset = shapes.MatrixIndex(shapes.b_batch, request.batch) * gemm.k * gemm.n;
      return PlainPanel(kernels_, {b_data + offset * element_bytes, type_, gemm.k, gemm.n, false}, gemm.m,
                        request);
    };
    RunGemm(context.threads(), kernels_, gemm, rows_of_a, gemm.k, panel_of_b, store);
    return Status();
  }

  template <typename T>
  static void ComputePlain(ThreadPool& threads, const MatMulShapes& shapes, const T* a, const T* b, T* c) {
    const GemmShape& gemm = shapes.gemm;
    threads.ParallelFor(gemm.batch * gemm.m, GrainFor(static_cast<double>(gemm.n * gemm.k)),
                        [&](int64_t begin, int64_t end, int) {
                          for (int64_t i = begin; i < end; ++i) {
                            const int64_t batch = i / gemm.m;
                            const int64_t a_index = shapes.MatrixIndex(shapes.a_batch, batch);
                            const int64_t b_index = shapes.MatrixIndex(shapes.b_batch, batch);
                            PlainGemmRow<T>({a + a_index * gemm.m * gemm.k, gemm.k, 1},
                                            {b + b_index * gemm.k * gemm.n, gemm.n, 1}, i % gemm.m, gemm.n,
                                            gemm.k, c + i * gemm.n);
                          }
                        });
  }

  const GemmKernels& kernels_;
  DataType type_;
  Shape b_shape_;  // of a constant matrix B; else rank 0
};

}  // namespace

void RegisterMatMul(KernelRegistry& registry) {
  registry.Add(KernelDef("MatMul").Input(0, kMatMulTypes).Input(1, kMatMulTypes).Output(0, kMatMulTypes),
               CreateKernel<MatMul>, EstimateWorkspace<MatMul>);
}

}  // namespace lamina
