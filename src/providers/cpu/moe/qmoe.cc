// QMoE (com.microsoft): experts with weights of 2, 4 or 8 bits, scales for each output row or for blocks
// along it. Activations stay floats. Routing weights are always the softmax over the k chosen experts, as
// ONNX Runtime's CPU kernel has it.
#include <algorithm>
#include <memory>

#include "providers/cpu/cpu_kernels.h"
#include "providers/cpu/moe/moe_core.h"
#include "providers/cpu/moe/moe_inputs.h"
#include "providers/cpu/nbits/nbits_matrix.h"
#include "providers/cpu/nbits/nbits_pack.h"
#include "providers/cpu/workspace_bounds.h"

namespace lamina {
namespace {

constexpr int kX = 0, kRouter = 1, kRouterWeights = 14;

// Input indices of a layer.
struct LayerInputs {
  int weights, scales, bias, zeros;
};
constexpr LayerInputs InputsOf(MoeLayer layer) {
  switch (layer) {
    case MoeLayer::kFc1:
      return {2, 3, 4, 11};
    case MoeLayer::kFc2:
      return {5, 6, 7, 12};
    default:
      return {8, 9, 10, 13};
  }
}
constexpr MoeLayer kLayers[] = {MoeLayer::kFc1, MoeLayer::kFc2, MoeLayer::kFc3};

// Workspace slots.
constexpr int kCore = 0;
constexpr int kActivations = 1;

Result<MoeAttributes> AttributesOf(const NodeInfo& node) {
  LAMINA_ASSIGN_OR_RETURN(MoeAttributes attributes, MoeAttributes::Of(node));
  attributes.normalize = true;
  return attributes;
}

class QMoE : public Kernel {
 public:
  explicit QMoE(const NodeInfo& node)
      : type_(node.input_type(kX).element),
        attributes_(*AttributesOf(node)),
        bits_(node.Int("expert_weight_bits", 4)) {
    for (const MoeLayer layer : kLayers) {
      if (!node.HasInput(InputsOf(layer).weights)) continue;
      weights_[Index(layer)] = node.input_bounds(InputsOf(layer).weights)->Max();
      matrices_[Index(layer)] =
          std::make_unique<NBitsMatrix>(ActiveIsa(), FormatOf(node, layer), /*int8=*/false);
      has_zeros_[Index(layer)] = node.HasInput(InputsOf(layer).zeros);
    }
    block_size_ = node.Int("block_size", 0);
  }

  static Status Validate(const NodeInfo& node) {
    LAMINA_RETURN_IF_ERROR(AttributesOf(node).status());
    return CheckNode(node).WithContext(fmt::format("node '{}': QMoE", node.name()));
  }

  static Status Workspace(const NodeInfo& node, WorkspaceRequirements& requirements) {
    LAMINA_ASSIGN_OR_RETURN(const MoeAttributes attributes, AttributesOf(node));
    LAMINA_ASSIGN_OR_RETURN(const Shape x, LargestInputShape(node, kX));
    LAMINA_ASSIGN_OR_RETURN(Shape router, LargestInputShape(node, kRouter));
    LAMINA_ASSIGN_OR_RETURN(const Shape fc1, LargestInputShape(node, InputsOf(MoeLayer::kFc1).weights));
    LAMINA_ASSIGN_OR_RETURN(const Shape fc2, LargestInputShape(node, InputsOf(MoeLayer::kFc2).weights));
    const int64_t pack = 8 / node.Int("expert_weight_bits", 4);
    // The bounds of tokens are x's: the router's may be looser.
    if (x.rank() >= 2 && router.rank() == 2) router[0] = x.num_elements(0, x.rank() - 1);
    const bool has_fc3 = node.HasInput(InputsOf(MoeLayer::kFc3).weights);
    const Result<MoeShape> shape = MoeShapeOf(attributes, x, router, fc1, fc2, pack, has_fc3);
    if (!shape.ok()) return Status();  // Compute reports it
    LAMINA_RETURN_IF_ERROR(requirements.Add(kCore, MoeWorkspaceBytes(attributes, *shape)));
    size_t activations = 0;
    for (const MoeLayer layer : kLayers) {
      if (!node.HasInput(InputsOf(layer).weights)) continue;
      const NBitsMatrix matrix(ActiveIsa(), FormatOf(node, layer), false);
      activations = std::max(activations, matrix.WorkspaceBytes(DataType::kFloat, shape->tokens));
    }
    return requirements.Add(kActivations, activations);
  }
  Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                      WorkspaceRequirements& requirements) const override {
    return Workspace(node, requirements);
  }

  Status DeclarePrepack(const NodeInfo&, int input, PrepackDeclaration& declaration) const override {
    for (const MoeLayer layer : kLayers) {
      const LayerInputs inputs = InputsOf(layer);
      const auto& matrix = matrices_[Index(layer)];
      if (input != inputs.weights || !matrix) continue;
      declaration.prepack = true;
      declaration.required = true;
      declaration.packed_bytes =
          static_cast<uint64_t>(weights_[Index(layer)][0] * matrix->format().packed_bytes());
      declaration.absorbed_inputs =
          1u << inputs.scales | (has_zeros_[Index(layer)] ? 1u << inputs.zeros : 0u);
    }
    return Status();
  }

  Status PrePackWeight(int input, PrepackContext& context, void* packed, void*) const override {
    for (const MoeLayer layer : kLayers) {
      if (InputsOf(layer).weights == input) return Pack(layer, context, packed);
    }
    return InternalError("QMoE does not pack input {}", input);
  }

  Status Compute(KernelContext& context) const override {
    const Tensor& x = *context.Input(kX);
    const Tensor& router = *context.Input(kRouter);
    LAMINA_ASSIGN_OR_RETURN(
        const MoeShape shape,
        MoeShapeOf(attributes_, x.shape(), router.shape(), weights_[Index(MoeLayer::kFc1)],
                   weights_[Index(MoeLayer::kFc2)], 8 / bits_, matrices_[Index(MoeLayer::kFc3)] != nullptr));
    LAMINA_RETURN_IF_ERROR(CheckMoeBiases(context, shape, InputsOf(MoeLayer::kFc1).bias,
                                          InputsOf(MoeLayer::kFc2).bias, InputsOf(MoeLayer::kFc3).bias));
    LAMINA_ASSIGN_OR_RETURN(void* core,
                            context.GetScratchBuffer(kCore, MoeWorkspaceBytes(attributes_, shape)));
    size_t activation_bytes = 0;
    for (const auto& matrix : matrices_) {
      if (matrix)
        activation_bytes = std::max(activation_bytes, matrix->WorkspaceBytes(DataType::kFloat, shape.tokens));
    }
    LAMINA_ASSIGN_OR_RETURN(void* activations, context.GetScratchBuffer(kActivations, activation_bytes));
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, x.shape()));
    RunMoe(
        context.threads(), attributes_, shape, type_, x.raw_data(), router.raw_data(),
        [&](MoeLayer layer, int64_t expert, const float* input, int64_t count, float* rows) {
          const NBitsMatrix& matrix = *matrices_[Index(layer)];
          const NBitsFormat& format = matrix.format();
          const int bias_input = InputsOf(layer).bias;
          const Tensor* bias = bias_input < context.num_inputs() ? context.Input(bias_input) : nullptr;
          const char* packed = static_cast<const char*>(context.Packed(InputsOf(layer).weights).data);
          matrix.Multiply(context.threads(), DataType::kFloat, input, format.k, count,
                          packed + expert * format.packed_bytes(), activations,
                          [&](int64_t row, int64_t column, int64_t columns, const float* values) {
                            StoreWithBias(bias, expert * format.n + column, columns, values,
                                          rows + row * format.n + column);
                          });
        },
        core, y->mutable_raw_data());
    return Status();
  }

 private:
  static constexpr size_t Index(MoeLayer layer) { return static_cast<size_t>(layer); }

  static Status CheckNode(const NodeInfo& node) {
    const int64_t bits = node.Int("expert_weight_bits", 4);
    if (bits != 2 && bits != 4 && bits != 8) {
      return UnsupportedError("expert_weight_bits must be 2, 4 or 8, found {}", bits);
    }
    const int64_t block_size = node.Int("block_size", 0);
    if (block_size != 0 && (block_size < 16 || block_size > 256 || (block_size & (block_size - 1)) != 0)) {
      return UnsupportedError("block_size must be a power of two from 16 to 256, found {}", block_size);
    }
    if (node.String("quant_type", "int") != "int") {
      return UnsupportedError("quant_type '{}': only 'int' is supported", node.String("quant_type", "int"));
    }
    if (node.HasInput(kRouterWeights)) return UnsupportedError("the input router_weights is not supported");
    for (const MoeLayer layer : kLayers) {
      const LayerInputs inputs = InputsOf(layer);
      if (!node.HasInput(inputs.weights)) {
        if (layer == MoeLayer::kFc3) continue;
        return InvalidModelError("input {} (weights) is absent", inputs.weights);
      }
      for (const int input : {inputs.weights, inputs.scales, inputs.zeros}) {
        if (input == inputs.zeros && !node.HasInput(input)) continue;
        if (!node.HasInput(input) || !node.is_constant_input(input)) {
          return UnsupportedError("input {} must be a constant of the model", input);
        }
      }
      const ShapeBounds* bounds = node.input_bounds(inputs.weights);
      if (!bounds || bounds->rank() != 3 || !bounds->bounded()) {
        return InvalidModelError("input {} must have shape [experts, outputs, bytes]", inputs.weights);
      }
    }
    return Status();
  }

  static NBitsFormat FormatOf(const NodeInfo& node, MoeLayer layer) {
    const LayerInputs inputs = InputsOf(layer);
    const Shape weights = node.input_bounds(inputs.weights)->Max();
    NBitsFormat format;
    format.bits = static_cast<int>(node.Int("expert_weight_bits", 4));
    format.n = weights[1];
    format.k = weights[2] * 8 / format.bits;
    format.block_size = node.Int("block_size", 0);
    // One scale for a whole row.
    if (format.block_size == 0) format.block_size = (format.k + 63) / 64 * 64;
    format.scale_type = node.input_type(inputs.scales).element;
    if (node.HasInput(inputs.zeros)) format.zeros = NBitsZeros::kBytes;
    return format;
  }

  Status Pack(MoeLayer layer, PrepackContext& context, void* packed) const {
    const LayerInputs inputs = InputsOf(layer);
    const NBitsFormat& format = matrices_[Index(layer)]->format();
    const int64_t experts = weights_[Index(layer)][0];
    const Tensor& weights = *context.Constant(inputs.weights);
    const Tensor& scales = *context.Constant(inputs.scales);
    const Tensor* zeros = has_zeros_[Index(layer)] ? context.Constant(inputs.zeros) : nullptr;
    NBitsSource source;
    source.row_bytes = format.k * format.bits / 8;
    source.blocks_of_row = block_size_ == 0 ? 1 : (format.k + block_size_ - 1) / block_size_;
    if (scales.num_elements() != experts * format.n * source.blocks_of_row) {
      return InvalidArgumentError("QMoE: input {} (scales) must have {} elements, found shape {}",
                                  inputs.scales, experts * format.n * source.blocks_of_row,
                                  scales.shape().ToString());
    }
    // Zero points of whole rows are packed along the rows, those of blocks along the blocks of each row.
    int64_t zero_bytes = 0;
    if (zeros) {
      source.zero_row_bits =
          block_size_ == 0 ? format.bits : (source.blocks_of_row * format.bits + 7) / 8 * 8;
      zero_bytes = (format.n * source.zero_row_bits + 7) / 8;
      if (zeros->num_elements() != experts * zero_bytes) {
        return InvalidArgumentError("QMoE: input {} (zero points) must have {} bytes, found shape {}",
                                    inputs.zeros, experts * zero_bytes, zeros->shape().ToString());
      }
    }
    for (int64_t expert = 0; expert < experts; ++expert) {
      source.weights = weights.data<uint8_t>() + expert * format.n * source.row_bytes;
      source.scales = static_cast<const char*>(scales.raw_data()) +
                      expert * format.n * source.blocks_of_row * DataTypeBits(format.scale_type) / 8;
      if (zeros) source.zeros = zeros->data<uint8_t>() + expert * zero_bytes;
      PackNBits(context.threads(), format, source,
                static_cast<char*>(packed) + expert * format.packed_bytes());
    }
    return Status();
  }

  DataType type_;
  MoeAttributes attributes_;
  int64_t bits_;
  int64_t block_size_ = 0;  // 0: one scale for each output row
  Shape weights_[3];        // by layer
  std::unique_ptr<NBitsMatrix> matrices_[3];
  bool has_zeros_[3] = {};
};

}  // namespace

void RegisterQMoE(KernelRegistry& registry) {
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16}) {
    KernelDef def("QMoE", kMsDomain);
    for (const int i : {kX, kRouter}) def.Input(i, type);
    for (const MoeLayer layer : kLayers) {
      const LayerInputs inputs = InputsOf(layer);
      def.Input(inputs.weights, DataType::kUint8)
          .Input(inputs.bias, type)
          .Input(inputs.zeros, DataType::kUint8);
      def.Input(inputs.scales, TypeSet{type, DataType::kFloat});
    }
    registry.Add(std::move(def.Output(0, type)), CreateKernel<QMoE>, EstimateWorkspace<QMoE>);
  }
}

}  // namespace lamina
