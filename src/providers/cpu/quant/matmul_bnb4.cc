// com.microsoft MatMulBnb4: products with weights in the 4-bit formats of bitsandbytes, FP4 and NF4. B [n, k]
// is stored row-major, two elements in a byte (the first in the high half), each block of elements with the
// largest magnitude it is scaled by.
#include "providers/cpu/gemm/gemm.h"
#include "providers/cpu/kernel_util.h"
#include "providers/cpu/simd/vec_math.h"
#include "providers/cpu/tensor/element_convert.h"
#include "providers/cpu/workspace_bounds.h"

namespace lamina {
namespace {

constexpr int kFloatsOfA = 0;  // scratch slot: A as float where it is stored in 16 bits
constexpr int kScales = 1;     // scratch slot: the blocks' scales as float where they are stored in 16 bits

// Values of the codes, of magnitude 1 at most.
constexpr float kFp4[16] = {
    0.0f,  0.005208333333f,  0.66666667f,  1.0f,  0.33333333f,  0.5f,  0.16666667f,  0.25f,
    -0.0f, -0.005208333333f, -0.66666667f, -1.0f, -0.33333333f, -0.5f, -0.16666667f, -0.25f};
constexpr float kNf4[16] = {-1.0f,
                            -0.6961928009986877f,
                            -0.5250730514526367f,
                            -0.39491748809814453f,
                            -0.28444138169288635f,
                            -0.18477343022823334f,
                            -0.09105003625154495f,
                            0.0f,
                            0.07958029955625534f,
                            0.16093020141124725f,
                            0.24611230194568634f,
                            0.33791524171829224f,
                            0.44070982933044434f,
                            0.5626170039176941f,
                            0.7229568362236023f,
                            1.0f};

bool IsHalfType(DataType type) { return type == DataType::kFloat16 || type == DataType::kBfloat16; }

class MatMulBnb4 : public Kernel {
 public:
  explicit MatMulBnb4(const NodeInfo& node)
      : k_(node.Int("K", 0)),
        n_(node.Int("N", 0)),
        block_(node.Int("block_size", 64)),
        table_(node.Int("quant_type", 0) == 0 ? kFp4 : kNf4) {}
  static Status Validate(const NodeInfo& node) {
    if (node.Int("K", 0) < 1 || node.Int("N", 0) < 1 || node.Int("block_size", 64) < 1 ||
        node.Int("quant_type", 0) < 0 || node.Int("quant_type", 0) > 1) {
      return InvalidModelError("K, N, block_size or quant_type is out of range");
    }
    if (node.Int("transB", 1) == 0) return UnsupportedError("MatMulBnb4 with transB = 0");
    return Status();
  }
  Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                      WorkspaceRequirements& requirements) const override {
    return Workspace(node, requirements);
  }
  static Status Workspace(const NodeInfo& node, WorkspaceRequirements& requirements) {
    if (!IsHalfType(node.input_type(0).element)) return Status();
    LAMINA_ASSIGN_OR_RETURN(const int64_t a, LargestInputElements(node, 0));
    LAMINA_ASSIGN_OR_RETURN(const int64_t scales, LargestInputElements(node, 2));
    LAMINA_RETURN_IF_ERROR(requirements.Add(kFloatsOfA, static_cast<size_t>(a) * sizeof(float)));
    return requirements.Add(kScales, static_cast<size_t>(scales) * sizeof(float));
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* a, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* b, RequireInput(context, 1));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* scales, RequireInput(context, 2));
    const Shape& shape = a->shape();
    const int64_t blocks = (n_ * k_ + block_ - 1) / block_;
    if (shape.rank() < 1 || shape[shape.rank() - 1] != k_ || b->num_elements() != (n_ * k_ + 1) / 2 ||
        scales->num_elements() != blocks || scales->type() != a->type()) {
      return InvalidArgumentError("A {}, B {} and absmax {} do not fit K = {}, N = {}", shape.ToString(),
                                  b->shape().ToString(), scales->shape().ToString(), k_, n_);
    }
    Shape out_shape = shape;
    out_shape[shape.rank() - 1] = n_;
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, out_shape));
    if (!y || y->num_elements() == 0) return Status();
    const float* rows = a->data<float>();
    const float* block_scales = scales->data<float>();
    if (IsHalfType(a->type())) {
      LAMINA_ASSIGN_OR_RETURN(float* floats, GetScratch<float>(context, kFloatsOfA, a->num_elements()));
      LAMINA_ASSIGN_OR_RETURN(float* scale_floats, GetScratch<float>(context, kScales, blocks));
      ConvertToFloat(a->type(), a->raw_data(), floats, a->num_elements());
      ConvertToFloat(a->type(), scales->raw_data(), scale_floats, blocks);
      rows = floats;
      block_scales = scale_floats;
    }
    const GemmKernels& kernels = GemmKernelsFor(ActiveIsa());
    const uint8_t* codes = b->data<uint8_t>();
    RunGemm(
        context.threads(), kernels, {1, a->num_elements() / k_, n_, k_}, [&](int64_t) { return rows; }, k_,
        [&](const GemmPanelRequest& request) {
          const int64_t width = kernels.panel_columns;
          for (int64_t j = 0; j < width; ++j) {
            const int64_t column = std::min(request.column + j, n_ - 1);
            for (int64_t i = 0; i < request.k_count; ++i) {
              const int64_t at = column * k_ + request.k_begin + i;
              const int code = at % 2 == 0 ? codes[at / 2] >> 4 : codes[at / 2] & 15;
              request.buffer[i * width + j] = table_[code] * block_scales[at / block_];
            }
          }
          return GemmPanel{request.buffer, width, DataType::kFloat};
        },
        [&](int64_t, int64_t row, int64_t column, int64_t count, const float* values) {
          WriteFloats(y->type(), values, y->mutable_raw_data(), row * n_ + column, count);
        });
    return Status();
  }

 private:
  int64_t k_;
  int64_t n_;
  int64_t block_;
  const float* table_;
};

}  // namespace

void RegisterMatMulBnb4Kernels(KernelRegistry& registry) {
  registry.Add(KernelDef("MatMulBnb4", kMsDomain)
                   .Input(0, kHalfAndFloatTypes)
                   .Input(1, DataType::kUint8)
                   .Input(2, kHalfAndFloatTypes)
                   .Output(0, kHalfAndFloatTypes),
               CreateKernel<MatMulBnb4>, EstimateWorkspace<MatMulBnb4>);
}

}  // namespace lamina
