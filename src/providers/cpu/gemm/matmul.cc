// MatMul (ai.onnx 1 and later): numpy's matmul, with broadcast batch dimensions. FusedMatMul and
// TransposeMatMul (com.microsoft): alpha times the same product of operands that are transposed first.
// MatMulAdd (of rewrites, model/shape_inference/lamina_ops.cc): the product plus a row.
#include <algorithm>
#include <memory>

#include "base/element_type.h"
#include "provider/kernel_registry.h"
#include "providers/cpu/gemm/matmul_shapes.h"
#include "providers/cpu/gemm/packed_matrix.h"
#include "providers/cpu/gemm/plain_gemm.h"
#include "providers/cpu/gemm/strided_rows.h"
#include "providers/cpu/simd/vec_math.h"
#include "providers/cpu/workspace_bounds.h"

namespace lamina {
namespace {

constexpr int kFloatsOfA = 0;  // workspace slot: A's rows as float, where they are transposed or of 16 bits

constexpr TypeSet kMatMulTypes =
    kFloatTypes | TypeSet{DataType::kInt32, DataType::kInt64, DataType::kUint32, DataType::kUint64};

bool IsHalf(DataType type) { return type == DataType::kFloat16 || type == DataType::kBfloat16; }

struct MatMulAttributes {
  explicit MatMulAttributes(const NodeInfo& node) {
    if (node.domain() != kMsDomain) return;
    alpha = node.Float("alpha", 1.0f);
    a = {node.Int("transA", 0) != 0, node.Int("transBatchA", 0) != 0};
    b = {node.Int("transB", 0) != 0, node.Int("transBatchB", 0) != 0};
  }
  float alpha = 1.0f;
  MatMulTransposes a;
  MatMulTransposes b;
};

class MatMul : public Kernel {
 public:
  explicit MatMul(const NodeInfo& node)
      : kernels_(GemmKernelsFor(ActiveIsa())), attributes_(node), type_(node.input_type(0).element) {
    const ShapeBounds* b = node.input_bounds(1);
    if (node.is_constant_input(1) && b && b->rank() == 2 && b->bounded()) b_shape_ = b->Max();
  }

  static Status Workspace(const NodeInfo& node, WorkspaceRequirements& requirements) {
    const DataType type = node.input_type(0).element;
    const MatMulAttributes attributes(node);
    const bool as_they_lie = type == DataType::kFloat && !attributes.a.matrix && !attributes.a.batch;
    if (as_they_lie || !kHalfAndFloatTypes.Contains(type)) return Status();
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
    const PlainMatrix b = ConstantMatrix(nullptr);
    declaration.prepack = true;
    declaration.packed_bytes = PackedMatrixBytes(type_, b.k, b.n);
    return Status();
  }

  Status PrePackWeight(int input, PrepackContext& context, void* packed, void*) const override {
    PackMatrix(context.threads(), kernels_, ConstantMatrix(context.Constant(input)->raw_data()), packed);
    return Status();
  }

  Status Compute(KernelContext& context) const override {
    const Tensor& a = *context.Input(0);
    const Tensor* b = context.Input(1);
    const PackedWeight packed = context.Packed(1);
    LAMINA_ASSIGN_OR_RETURN(
        MatMulShapes shapes,
        MatchMatMul(a.shape(), attributes_.a, packed.data ? b_shape_ : b->shape(), attributes_.b));
    const Tensor* bias = context.num_inputs() > 2 ? context.Input(2) : nullptr;
    if (bias && (bias->num_elements() != shapes.gemm.n || bias->type() != type_)) {
      return InvalidArgumentError("a bias {}{} for {} columns", DataTypeName(bias->type()),
                                  bias->shape().ToString(), shapes.gemm.n);
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * output, context.Output(0, shapes.output));
    if (output->num_elements() == 0) return Status();
    if (!kHalfAndFloatTypes.Contains(type_)) {
      DispatchType<double, int32_t, int64_t, uint32_t, uint64_t>(type_, [&](auto tag) {
        using T = typename decltype(tag)::type;
        ComputePlain<T>(context.threads(), shapes, a.data<T>(), b->data<T>(), output->mutable_data<T>());
      });
      return Status();
    }
    return ComputeFloat(context, shapes, a, b, packed.data, bias ? bias->raw_data() : nullptr, *output);
  }

 private:
  // The constant B, whose elements are `data`.
  PlainMatrix ConstantMatrix(const void* data) const {
    const bool transposed = attributes_.b.matrix;
    return {data, type_, b_shape_[transposed ? 1 : 0], b_shape_[transposed ? 0 : 1], transposed};
  }

  Status ComputeFloat(KernelContext& context, MatMulShapes& shapes, const Tensor& a, const Tensor* b,
                      const void* packed, const void* bias, Tensor& output) const {
    const float* a_floats = a.data<float>();
    if (IsHalf(type_) || !shapes.a.contiguous()) {
      LAMINA_ASSIGN_OR_RETURN(float* floats, GetScratch<float>(context, kFloatsOfA, a.num_elements()));
      CopyRowsAsFloat(context.threads(), type_, a.raw_data(), shapes.a, floats);
      a_floats = floats;
    }
    if (shapes.CanFoldBatch()) shapes.FoldBatch();
    const GemmShape& gemm = shapes.gemm;
    const int64_t element_bytes = DataTypeBits(type_) / 8;
    char* c = static_cast<char*>(output.mutable_raw_data());
    const auto rows_of_a = [&](int64_t batch) {
      return a_floats + shapes.MatrixOf(shapes.a, batch) * gemm.m * gemm.k;
    };
    const auto store = [&](int64_t batch, int64_t row, int64_t column, int64_t count, const float* values) {
      char* target = c + ((batch * gemm.m + row) * gemm.n + column) * element_bytes;
      if (attributes_.alpha == 1.0f && !bias) return ConvertFromFloat(type_, values, target, count);
      float result[kMaxGemmPanelColumns] = {};
      if (bias) {
        ConvertToFloat(type_, static_cast<const char*>(bias) + column * element_bytes, result, count);
      }
      for (int64_t i = 0; i < count; ++i) result[i] += attributes_.alpha * values[i];
      ConvertFromFloat(type_, result, target, count);
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
    const bool transposed = shapes.b.column_stride != 1;
    const auto panel_of_b = [&](const GemmPanelRequest& request) {
      const int64_t offset = shapes.MatrixOf(shapes.b, request.batch) * shapes.b.matrix_stride;
      const PlainMatrix matrix{b_data + offset * element_bytes,
                               type_,
                               gemm.k,
                               gemm.n,
                               transposed,
                               transposed ? shapes.b.column_stride : shapes.b.row_stride};
      return PlainPanel(kernels_, matrix, gemm.m, request);
    };
    RunGemm(context.threads(), kernels_, gemm, rows_of_a, gemm.k, panel_of_b, store);
    return Status();
  }

  template <typename T>
  void ComputePlain(ThreadPool& threads, const MatMulShapes& shapes, const T* a, const T* b, T* c) const {
    const GemmShape& gemm = shapes.gemm;
    const auto matrix = [&](const T* data, const MatrixStack& stack, int64_t batch) -> StridedMatrix<T> {
      const int64_t offset = shapes.MatrixOf(stack, batch) * stack.matrix_stride;
      return {data + offset, stack.row_stride, stack.column_stride};
    };
    threads.ParallelFor(gemm.batch * gemm.m, GrainFor(static_cast<double>(gemm.n * gemm.k)),
                        [&](int64_t begin, int64_t end, int) {
                          for (int64_t i = begin; i < end; ++i) {
                            const int64_t batch = i / gemm.m;
                            T* row = c + i * gemm.n;
                            PlainGemmRow<T>(matrix(a, shapes.a, batch), matrix(b, shapes.b, batch),
                                            i % gemm.m, gemm.n, gemm.k, row);
                            if constexpr (std::is_floating_point_v<T>) {
                              for (int64_t j = 0; j < gemm.n; ++j) row[j] *= T{attributes_.alpha};
                            }
                          }
                        });
  }

  const GemmKernels& kernels_;
  MatMulAttributes attributes_;
  DataType type_;
  Shape b_shape_;  // of a constant matrix B; else rank 0
};

}  // namespace

void RegisterMatMul(KernelRegistry& registry) {
  const auto add = [&](const char* name, std::string_view domain, TypeSet types) {
    KernelDef def(name, domain);
    def.Input(0, types).Input(1, types).Output(0, types);
    if (domain == "lamina") def.Input(2, types);
    registry.Add(std::move(def), CreateKernel<MatMul>, EstimateWorkspace<MatMul>);
  };
  add("MatMul", "", kMatMulTypes);
  add("FusedMatMul", kMsDomain, kFloatTypes);
  add("TransposeMatMul", kMsDomain, kFloatTypes);
  add("MatMulAdd", "lamina", kHalfAndFloatTypes);
}

}  // namespace lamina
