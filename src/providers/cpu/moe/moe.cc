// MoE (com.microsoft): experts with weights of float, float16 or bfloat16.
#include <memory>

#include "providers/cpu/cpu_kernels.h"
#include "providers/cpu/gemm/packed_matrix.h"
#include "providers/cpu/moe/moe_core.h"
#include "providers/cpu/moe/moe_inputs.h"
#include "providers/cpu/simd/vec_math.h"
#include "providers/cpu/workspace_bounds.h"

namespace lamina {
namespace {

constexpr int kX = 0, kRouter = 1;
// Weight input of each layer; its bias is the next input.
constexpr int WeightInput(MoeLayer layer) {
  switch (layer) {
    case MoeLayer::kFc1:
      return 2;
    case MoeLayer::kFc2:
      return 4;
    default:
      return 6;
  }
}

constexpr int kCore = 0;  // workspace slot

class MoE : public Kernel {
 public:
  explicit MoE(const NodeInfo& node)
      : kernels_(GemmKernelsFor(ActiveIsa())),
        type_(node.input_type(kX).element),
        attributes_(*MoeAttributes::Of(node)) {
    for (const MoeLayer layer : {MoeLayer::kFc1, MoeLayer::kFc2, MoeLayer::kFc3}) {
      const int input = WeightInput(layer);
      const ShapeBounds* bounds = node.HasInput(input) ? node.input_bounds(input) : nullptr;
      if (node.HasInput(input) && node.is_constant_input(input) && bounds && bounds->rank() == 3 &&
          bounds->bounded()) {
        shapes_[static_cast<int>(layer)] = bounds->Max();
      }
    }
  }

  static Status Validate(const NodeInfo& node) { return MoeAttributes::Of(node).status(); }

  static Status Workspace(const NodeInfo& node, WorkspaceRequirements& requirements) {
    LAMINA_ASSIGN_OR_RETURN(const MoeAttributes attributes, MoeAttributes::Of(node));
    LAMINA_ASSIGN_OR_RETURN(const Shape x, LargestInputShape(node, kX));
    LAMINA_ASSIGN_OR_RETURN(Shape router, LargestInputShape(node, kRouter));
    // The bounds of tokens are x's: the router's may be looser.
    if (x.rank() >= 2 && router.rank() == 2) router[0] = x.num_elements(0, x.rank() - 1);
    LAMINA_ASSIGN_OR_RETURN(const Shape fc1, LargestInputShape(node, WeightInput(MoeLayer::kFc1)));
    LAMINA_ASSIGN_OR_RETURN(const Shape fc2, LargestInputShape(node, WeightInput(MoeLayer::kFc2)));
    const bool has_fc3 = node.HasInput(WeightInput(MoeLayer::kFc3));
    const Result<MoeShape> shape = MoeShapeOf(attributes, x, router, fc1, fc2, 1, has_fc3);
    if (!shape.ok()) return Status();  // Compute reports it
    return requirements.Add(kCore, MoeWorkspaceBytes(attributes, *shape));
  }
  Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                      WorkspaceRequirements& requirements) const override {
    return Workspace(node, requirements);
  }

  Status DeclarePrepack(const NodeInfo&, int input, PrepackDeclaration& declaration) const override {
    const Shape* shape = ConstantShape(input);
    if (!shape) return Status();
    declaration.prepack = true;
    declaration.packed_bytes = static_cast<uint64_t>((*shape)[0]) * ExpertBytes(*shape);
    return Status();
  }

  Status PrePackWeight(int input, PrepackContext& context, void* packed, void*) const override {
    const Shape& shape = *ConstantShape(input);
    for (int64_t expert = 0; expert < shape[0]; ++expert) {
      PackMatrix(context.threads(), kernels_, PlainExpert(*context.Constant(input), shape, expert),
                 static_cast<char*>(packed) + static_cast<uint64_t>(expert) * ExpertBytes(shape));
    }
    return Status();
  }

  Status Compute(KernelContext& context) const override {
    const Tensor& x = *context.Input(kX);
    const Tensor& router = *context.Input(kRouter);
    const bool has_fc3 = LayerShape(context, MoeLayer::kFc3).rank() != 0;
    const Shape fc2_shape = LayerShape(context, MoeLayer::kFc2);
    LAMINA_ASSIGN_OR_RETURN(const MoeShape shape,
                            MoeShapeOf(attributes_, x.shape(), router.shape(),
                                       LayerShape(context, MoeLayer::kFc1), fc2_shape, 1, has_fc3));
    if (has_fc3 && LayerShape(context, MoeLayer::kFc3) != Shape{shape.experts, shape.inter, shape.hidden}) {
      return InvalidArgumentError("fc3_experts_weights must have shape [{},{},{}], found {}", shape.experts,
                                  shape.inter, shape.hidden, LayerShape(context, MoeLayer::kFc3).ToString());
    }
    LAMINA_RETURN_IF_ERROR(CheckMoeBiases(context, shape, WeightInput(MoeLayer::kFc1) + 1,
                                          WeightInput(MoeLayer::kFc2) + 1, WeightInput(MoeLayer::kFc3) + 1));
    LAMINA_ASSIGN_OR_RETURN(void* workspace,
                            context.GetScratchBuffer(kCore, MoeWorkspaceBytes(attributes_, shape)));
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, x.shape()));
    RunMoe(
        context.threads(), attributes_, shape, type_, x.raw_data(), router.raw_data(),
        [&](MoeLayer layer, int64_t expert, const float* input, int64_t count, float* rows) {
          Multiply(context, layer, expert, input, count, rows);
        },
        workspace, y->mutable_raw_data());
    return Status();
  }

 private:
  const Shape* ConstantShape(int input) const {
    for (const MoeLayer layer : {MoeLayer::kFc1, MoeLayer::kFc2, MoeLayer::kFc3}) {
      if (WeightInput(layer) == input && shapes_[static_cast<int>(layer)].rank() == 3) {
        return &shapes_[static_cast<int>(layer)];
      }
    }
    return nullptr;
  }

  // Rank 0 where the layer is absent.
  Shape LayerShape(const KernelContext& context, MoeLayer layer) const {
    if (const Shape* constant = ConstantShape(WeightInput(layer))) return *constant;
    const int input = WeightInput(layer);
    const Tensor* weights = input < context.num_inputs() ? context.Input(input) : nullptr;
    return weights ? weights->shape() : Shape();
  }

  // An expert's weights lie as [outputs, inputs]: the transpose of the product's right-hand matrix.
  PlainMatrix PlainExpert(const Tensor& weights, const Shape& shape, int64_t expert) const {
    const int64_t bytes = shape[1] * shape[2] * DataTypeBits(type_) / 8;
    return {static_cast<const char*>(weights.raw_data()) + expert * bytes, type_, shape[2], shape[1], true};
  }

  uint64_t ExpertBytes(const Shape& shape) const { return PackedMatrixBytes(type_, shape[2], shape[1]); }

  void Multiply(KernelContext& context, MoeLayer layer, int64_t expert, const float* input, int64_t count,
                float* rows) const {
    const int index = WeightInput(layer);
    const Shape shape = LayerShape(context, layer);
    const int64_t n = shape[1];
    const int64_t k = shape[2];
    const void* packed = context.Packed(index).data;
    const Tensor* bias = index + 1 < context.num_inputs() ? context.Input(index + 1) : nullptr;
    PlainMatrix plain;
    if (packed) {
      packed = static_cast<const char*>(packed) + static_cast<uint64_t>(expert) * ExpertBytes(shape);
    } else {
      plain = PlainExpert(*context.Input(index), shape, expert);
    }
    RunGemm(
        context.threads(), kernels_, {1, count, n, k}, [&](int64_t) { return input; }, k,
        [&](const GemmPanelRequest& request) {
          return packed ? PackedPanel(kernels_, type_, packed, k, request)
                        : PlainPanel(kernels_, plain, count, request);
        },
        [&](int64_t, int64_t row, int64_t column, int64_t columns, const float* values) {
          StoreWithBias(bias, expert * n + column, columns, values, rows + row * n + column);
        });
  }

  const GemmKernels& kernels_;
  DataType type_;
  MoeAttributes attributes_;
  Shape shapes_[3];  // of constant weights, by layer; else rank 0
};

}  // namespace

void RegisterMoE(KernelRegistry& registry) {
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16}) {
    KernelDef def("MoE", kMsDomain);
    for (int i = 0; i < 8; ++i) def.Input(i, type);
    registry.Add(std::move(def.Output(0, type)), CreateKernel<MoE>, EstimateWorkspace<MoE>);
  }
}

}  // namespace lamina
