// Gemm (ai.onnx 1 and later): Y = alpha A' B' + beta C, with C broadcast to [m, n]. FusedGemm
// (com.microsoft): an activation of it.
#include <algorithm>
#include <memory>

#include "base/element_type.h"
#include "provider/kernel_registry.h"
#include "providers/cpu/elementwise/activations.h"
#include "providers/cpu/gemm/packed_matrix.h"
#include "providers/cpu/gemm/plain_gemm.h"
#include "providers/cpu/gemm/strided_rows.h"
#include "providers/cpu/simd/vec_math.h"
#include "providers/cpu/workspace_bounds.h"

namespace lamina {
namespace {

constexpr int kFloatsOfA = 0;  // workspace slot: A [m, k] as float, where it is transposed or of 16 bits

constexpr TypeSet kGemmTypes =
    kFloatTypes | TypeSet{DataType::kInt32, DataType::kInt64, DataType::kUint32, DataType::kUint64};

bool IsHalf(DataType type) { return type == DataType::kFloat16 || type == DataType::kBfloat16; }

// Strides of C, 0 along broadcast axes.
struct Broadcast {
  int64_t row_stride = 0;
  int64_t column_stride = 0;
};

Result<Broadcast> BroadcastTo(const Shape& c, int64_t m, int64_t n) {
  const int64_t rows = c.rank() >= 2 ? c[c.rank() - 2] : 1;
  const int64_t columns = c.rank() >= 1 ? c[c.rank() - 1] : 1;
  if (c.rank() > 2 || (rows != 1 && rows != m) || (columns != 1 && columns != n)) {
    return InvalidArgumentError("Gemm: C of shape {} does not broadcast to [{},{}]", c.ToString(), m, n);
  }
  return Broadcast{rows == 1 ? 0 : columns, columns == 1 ? 0 : 1};
}

class Gemm : public Kernel {
 public:
  explicit Gemm(const NodeInfo& node)
      : kernels_(GemmKernelsFor(ActiveIsa())),
        type_(node.input_type(0).element),
        alpha_(node.Float("alpha", 1.0f)),
        beta_(node.Float("beta", 1.0f)),
        trans_a_(node.Int("transA", 0) != 0),
        trans_b_(node.Int("transB", 0) != 0),
        activation_(*FusedActivation(node)) {
    const ShapeBounds* b = node.input_bounds(1);
    if (node.is_constant_input(1) && b && b->rank() == 2 && b->bounded()) b_shape_ = b->Max();
  }

  static Status Validate(const NodeInfo& node) { return FusedActivation(node).status(); }

  static Status Workspace(const NodeInfo& node, WorkspaceRequirements& requirements) {
    const DataType type = node.input_type(0).element;
    const bool transposed = node.Int("transA", 0) != 0;
    if (!kHalfAndFloatTypes.Contains(type) || (!IsHalf(type) && !transposed)) return Status();
    LAMINA_ASSIGN_OR_RETURN(const int64_t elements, LargestInputElements(node, 0));
    return requirements.Add(kFloatsOfA, static_cast<size_t>(elements) * sizeof(float));
  }
  Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                      WorkspaceRequirements& requirements) const override {
    return Workspace(node, requirements);
  }

  Status DeclarePrepack(const NodeInfo&, int input, PrepackDeclaration& declaration) const override {
    if (input != 1 || b_shape_.rank() != 2 || !kHalfAndFloatTypes.Contains(type_)) return Status();
    declaration.prepack = true;
    declaration.packed_bytes =
        PackedMatrixBytes(type_, b_shape_[trans_b_ ? 1 : 0], b_shape_[trans_b_ ? 0 : 1]);
    return Status();
  }

  Status PrePackWeight(int input, PrepackContext& context, void* packed, void*) const override {
    const void* data = context.Constant(input)->raw_data();
    PackMatrix(context.threads(), kernels_,
               {data, type_, b_shape_[trans_b_ ? 1 : 0], b_shape_[trans_b_ ? 0 : 1], trans_b_}, packed);
    return Status();
  }

  Status Compute(KernelContext& context) const override {
    const Tensor& a = *context.Input(0);
    const Tensor* b = context.Input(1);
    const Tensor* c = context.num_inputs() > 2 ? context.Input(2) : nullptr;
    const Shape& b_shape = context.Packed(1).data ? b_shape_ : b->shape();
    if (a.shape().rank() != 2 || b_shape.rank() != 2) {
      return InvalidArgumentError("Gemm: A and B must be matrices, found shapes {} and {}",
                                  a.shape().ToString(), b_shape.ToString());
    }
    GemmShape shape;
    shape.m = a.shape()[trans_a_ ? 1 : 0];
    shape.k = a.shape()[trans_a_ ? 0 : 1];
    shape.n = b_shape[trans_b_ ? 0 : 1];
    if (b_shape[trans_b_ ? 1 : 0] != shape.k) {
      return InvalidArgumentError("Gemm: inner dimensions differ: A {}{}, B {}{}", a.shape().ToString(),
                                  trans_a_ ? " transposed" : "", b_shape.ToString(),
                                  trans_b_ ? " transposed" : "");
    }
    Broadcast broadcast;
    if (c) {
      LAMINA_ASSIGN_OR_RETURN(broadcast, BroadcastTo(c->shape(), shape.m, shape.n));
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * output, context.Output(0, Shape{shape.m, shape.n}));
    if (output->num_elements() == 0) return Status();
    if (kHalfAndFloatTypes.Contains(type_)) return ComputeFloat(context, shape, a, b, c, broadcast, *output);
    DispatchType<double, int32_t, int64_t, uint32_t, uint64_t>(type_, [&](auto tag) {
      ComputePlain<typename decltype(tag)::type>(context.threads(), shape, a, *b, c, broadcast, *output);
    });
    return Status();
  }

 private:
  Status ComputeFloat(KernelContext& context, const GemmShape& shape, const Tensor& a, const Tensor* b,
                      const Tensor* c, const Broadcast& broadcast, Tensor& output) const {
    const float* a_floats = a.data<float>();
    if (trans_a_ || IsHalf(type_)) {
      LAMINA_ASSIGN_OR_RETURN(float* floats, GetScratch<float>(context, kFloatsOfA, a.num_elements()));
      MatrixStack rows;
      rows.rows = shape.m;
      rows.columns = shape.k;
      rows.row_stride = trans_a_ ? 1 : shape.k;
      rows.column_stride = trans_a_ ? shape.m : 1;
      CopyRowsAsFloat(context.threads(), type_, a.raw_data(), rows, floats);
      a_floats = floats;
    }
    const void* packed = context.Packed(1).data;
    const PlainMatrix plain{packed ? nullptr : b->raw_data(), type_, shape.k, shape.n, trans_b_};
    const int64_t element_bytes = DataTypeBits(type_) / 8;
    const char* c_data = c ? static_cast<const char*>(c->raw_data()) : nullptr;
    char* y = static_cast<char*>(output.mutable_raw_data());
    RunGemm(
        context.threads(), kernels_, shape, [&](int64_t) { return a_floats; }, shape.k,
        [&](const GemmPanelRequest& request) {
          return packed ? PackedPanel(kernels_, type_, packed, shape.k, request)
                        : PlainPanel(kernels_, plain, shape.m, request);
        },
        [&](int64_t, int64_t row, int64_t column, int64_t count, const float* values) {
          float result[kMaxGemmPanelColumns];
          for (int64_t i = 0; i < count; ++i) result[i] = alpha_ * values[i];
          if (c_data) {
            float bias[kMaxGemmPanelColumns];
            const int64_t offset = row * broadcast.row_stride + column * broadcast.column_stride;
            const int64_t distinct = broadcast.column_stride == 0 ? 1 : count;
            ConvertToFloat(type_, c_data + offset * element_bytes, bias, distinct);
            for (int64_t i = 0; i < count; ++i) result[i] += beta_ * bias[i * broadcast.column_stride];
          }
          if (activation_) activation_->Apply(result, count);
          ConvertFromFloat(type_, result, y + (row * shape.n + column) * element_bytes, count);
        });
    return Status();
  }

  template <typename T>
  void ComputePlain(ThreadPool& threads, const GemmShape& shape, const Tensor& a, const Tensor& b,
                    const Tensor* c, const Broadcast& broadcast, Tensor& output) const {
    const StridedMatrix<T> a_matrix{a.data<T>(), trans_a_ ? 1 : shape.k, trans_a_ ? shape.m : 1};
    const StridedMatrix<T> b_matrix{b.data<T>(), trans_b_ ? 1 : shape.n, trans_b_ ? shape.k : 1};
    const T* c_data = c ? c->data<T>() : nullptr;
    threads.ParallelFor(
        shape.m, GrainFor(static_cast<double>(shape.n * shape.k)), [&](int64_t begin, int64_t end, int) {
          for (int64_t row = begin; row < end; ++row) {
            T* y = output.mutable_data<T>() + row * shape.n;
            PlainGemmRow(a_matrix, b_matrix, row, shape.n, shape.k, y);
            for (int64_t j = 0; j < shape.n; ++j) y[j] = Scale(alpha_, y[j]);
            for (int64_t j = 0; c_data && j < shape.n; ++j) {
              y[j] =
                  Sum(y[j], Scale(beta_, c_data[row * broadcast.row_stride + j * broadcast.column_stride]));
            }
          }
        });
  }

  // Integers: exact where the factor is 1; else the product is computed in double and truncated.
  template <typename T>
  static T Scale(float factor, T value) {
    if (factor == 1.0f) return value;
    return static_cast<T>(static_cast<double>(factor) * static_cast<double>(value));
  }
  template <typename T>
  static T Sum(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using Wrapping = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Wrapping>(a) + static_cast<Wrapping>(b));
    } else {
      return a + b;
    }
  }

  const GemmKernels& kernels_;
  DataType type_;
  float alpha_;
  float beta_;
  bool trans_a_;
  bool trans_b_;
  std::optional<Activation> activation_;  // of float, float16 and bfloat16
  Shape b_shape_;                         // of a constant matrix B; else rank 0
};

}  // namespace

void RegisterGemm(KernelRegistry& registry) {
  registry.Add(
      KernelDef("Gemm").Input(0, kGemmTypes).Input(1, kGemmTypes).Input(2, kGemmTypes).Output(0, kGemmTypes),
      CreateKernel<Gemm>, EstimateWorkspace<Gemm>);
  registry.Add(KernelDef("FusedGemm", kMsDomain)
                   .Input(0, kHalfAndFloatTypes)
                   .Input(1, kHalfAndFloatTypes)
                   .Input(2, kHalfAndFloatTypes)
                   .Output(0, kHalfAndFloatTypes),
               CreateKernel<Gemm>, EstimateWorkspace<Gemm>);
}

}  // namespace lamina
