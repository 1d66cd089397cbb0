#include "rewrite/convert/half_precision.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "model/decoder_contract.h"
#include "model/shape_inference/shape_inference.h"
#include "rewrite/graph_editor.h"

namespace lamina {
namespace {

constexpr uint64_t kLargeWeightBytes = 4096;
constexpr float kLowestHalf = -65504.0f;

// Operators that read weights.
bool ReadsWeights(std::string_view op_type) {
  static const std::set<std::string_view> ops = {"MatMul", "Gemm", "Gather", "Conv", "FusedConv"};
  return ops.count(op_type) > 0;
}

bool WorksInHalf(std::string_view op_type) {
  static const std::set<std::string_view> ops = {"Add",
                                                 "Sub",
                                                 "Mul",
                                                 "Div",
                                                 "Neg",
                                                 "Relu",
                                                 "LeakyRelu",
                                                 "Sigmoid",
                                                 "Tanh",
                                                 "Gelu",
                                                 "FastGelu",
                                                 "QuickGelu",
                                                 "SwiGLU",
                                                 "Softmax",
                                                 "MatMul",
                                                 "Gemm",
                                                 "Gather",
                                                 "Conv",
                                                 "FusedConv",
                                                 "MaxPool",
                                                 "AveragePool",
                                                 "GlobalAveragePool",
                                                 "LayerNormalization",
                                                 "SimplifiedLayerNormalization",
                                                 "RMSNormalization",
                                                 "SkipLayerNormalization",
                                                 "SkipSimplifiedLayerNormalization",
                                                 "GroupQueryAttention",
                                                 "Attention",
                                                 "MultiHeadAttention",
                                                 "RotaryEmbedding",
                                                 "Reshape",
                                                 "Transpose",
                                                 "Squeeze",
                                                 "Unsqueeze",
                                                 "Flatten",
                                                 "Concat",
                                                 "Split",
                                                 "Slice",
                                                 "Identity",
                                                 "Expand"};
  return ops.count(op_type) > 0;
}

class Converter {
 public:
  Converter(Model& model, DataType type) : type_(type), editor_(*model.graph, environment_) {
    environment_.model = &model;
  }

  Result<int> Run() {
    LAMINA_ASSIGN_OR_RETURN(const std::vector<NodeId> order, editor_.graph().TopologicalOrder());
    for (const NodeId id : order) {
      if (BelongsToHalf(id)) half_.insert(id.index);
    }
    const PastToPresent present_of = PresentOfPast();
    for (const NodeId id : order) {
      if (IsHalf(id)) ConvertOutputs(id);
    }
    ConvertGraphInputs(present_of);
    for (const NodeId id : order) FitInputs(id);
    return static_cast<int>(half_.size());
  }

 private:
  using PastToPresent = std::unordered_map<int32_t, ValueId>;  // by the index of the past

  bool IsHalf(NodeId id) const { return id.valid() && half_.count(id.index) > 0; }
  bool IsFloat(ValueId id) const { return editor_.Type(id) == DataType::kFloat; }

  bool BelongsToHalf(NodeId id) const {
    const Node& node = editor_.node(id);
    if (!WorksInHalf(node.op_type) || !node.Subgraphs().empty()) return false;
    const bool gives_floats = std::any_of(node.outputs.begin(), node.outputs.end(),
                                          [&](ValueId output) { return output.valid() && IsFloat(output); });
    if (!gives_floats || std::any_of(node.outputs.begin(), node.outputs.end(),
                                     [&](ValueId output) { return output.valid() && IsCaptured(output); })) {
      return false;
    }
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
      if (!input.valid() || !IsFloat(input)) return false;
      const Initializer* constant = editor_.graph().ConstantOf(input);
      if (constant) return ReadsWeights(node.op_type) && constant->size_bytes() >= kLargeWeightBytes;
      return IsHalf(editor_.Producer(input));
    });
  }

  // Bodies of If, Loop and Scan stay as they are, and so does what they read.
  bool IsCaptured(ValueId id) const {
    const std::vector<Use>& uses = editor_.value(id).uses;
    return std::any_of(uses.begin(), uses.end(),
                       [](const Use& use) { return use.input_index == Use::kCapture; });
  }

  // The past of a cache has the type of its present. Another input changes its type where only half nodes
  // read its elements.
  void ConvertGraphInputs(const PastToPresent& present_of) {
    for (const ValueId input : editor_.graph().inputs()) {
      const ValueInfo& info = editor_.value(input);
      if (!IsFloat(input) || info.initializer.valid() || info.uses.empty() || IsCaptured(input)) continue;
      const auto present = present_of.find(input.index);
      const bool converts =
          present != present_of.end()
              ? editor_.Type(present->second) == type_
              : std::all_of(info.uses.begin(), info.uses.end(), [&](const Use& use) {
                  return IsHalf(use.node) || editor_.Is(use.node, "Shape") || editor_.Is(use.node, "Size");
                });
      if (converts) SetType(input);
    }
  }

  PastToPresent PresentOfPast() const {
    PastToPresent present_of;
    const Result<DecoderSignature> decoder = FindDecoderSignature(*environment_.model);
    if (!decoder.ok()) return present_of;
    const Graph& graph = editor_.graph();
    const auto add = [&](const DecoderPort& past, const DecoderPort& present) {
      const ValueId input = graph.FindValue(past.name);
      const ValueId output = graph.FindValue(present.name);
      if (input.valid() && output.valid()) present_of[input.index] = output;
    };
    for (const DecoderKvLayer& layer : decoder->kv_layers) {
      add(layer.past_key, layer.present_key);
      add(layer.past_value, layer.present_value);
    }
    for (const DecoderStateLayer& layer : decoder->state_layers) add(layer.past, layer.present);
    return present_of;
  }

  void ConvertOutputs(NodeId id) {
    for (const ValueId output : editor_.node(id).outputs) {
      if (output.valid() && IsFloat(output)) SetType(output);
    }
  }

  void SetType(ValueId id) { editor_.graph().mutable_value(id).type = ValueType::Tensor(type_); }

  // Every floating-point input has the type its node works in.
  void FitInputs(NodeId id) {
    const DataType wanted = IsHalf(id) ? type_ : DataType::kFloat;
    const DataType other = IsHalf(id) ? DataType::kFloat : type_;
    for (size_t i = 0; i < editor_.node(id).inputs.size(); ++i) {
      const ValueId input = editor_.Input(id, i);
      if (!input.valid() || editor_.Type(input) != other) continue;
      // A Cast takes any type.
      if (editor_.Is(id, "Cast")) continue;
      editor_.graph().SetInput(id, static_cast<int>(i), Fitted(id, input, wanted));
    }
  }

  ValueId Fitted(NodeId user, ValueId input, DataType wanted) {
    ValueId& fitted = fitted_[{input.index, wanted}];
    if (fitted.valid()) return fitted;
    if (editor_.IsConstant(input)) {
      const Result<DerivedTensorPtr> cast = DeriveCast(editor_.ExpressionOf(input), wanted);
      const std::string name = editor_.value(input).name.str() + "_" + std::string(DataTypeName(wanted));
      return fitted = editor_.AddDerived(name, *cast);
    }
    KeepMaskFinite(input, wanted);
    const std::optional<SymbolicShape> shape = editor_.value(input).shape;
    return fitted = editor_.AddNode(
               user, "Cast",
               {"Cast", kOnnxDomain, {input}, {editor_.MakeAttribute("to", static_cast<int64_t>(wanted))}},
               ValueType::Tensor(wanted), shape);
  }

  // The lowest float is infinite in fp16, and a row of infinities is no softmax.
  void KeepMaskFinite(ValueId input, DataType wanted) {
    const NodeId producer = editor_.Producer(input);
    if (wanted != DataType::kFloat16 || !editor_.Is(producer, "CausalMask", kLaminaDomain)) return;
    for (Attribute& attribute : editor_.graph().mutable_node(producer).attributes) {
      auto* masked = attribute.name == "masked" ? std::get_if<float>(&attribute.value) : nullptr;
      if (masked) *masked = std::max(*masked, kLowestHalf);
    }
  }

  struct FittedKey {
    int32_t value;
    DataType type;
    bool operator==(const FittedKey&) const = default;
  };
  struct FittedHash {
    size_t operator()(const FittedKey& key) const {
      return std::hash<int64_t>()(int64_t{key.value} * 64 + static_cast<int64_t>(key.type));
    }
  };

  DataType type_;
  RewriteEnvironment environment_;
  GraphEditor editor_;
  std::unordered_set<int32_t> half_;
  std::unordered_map<FittedKey, ValueId, FittedHash> fitted_;
};

}  // namespace

Result<int> ConvertToHalf(Model& model, DataType type) {
  if (type != DataType::kFloat16 && type != DataType::kBfloat16) {
    return InvalidArgumentError("conversion to {}: expected float16 or bfloat16", DataTypeName(type));
  }
  LAMINA_ASSIGN_OR_RETURN(const int converted, Converter(model, type).Run());
  LAMINA_RETURN_IF_ERROR(InferShapes(model));
  return converted;
}

}  // namespace lamina
