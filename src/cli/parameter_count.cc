#include "cli/parameter_count.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace lamina::cli {
namespace {

// Operators some of whose inputs are weights packed into bytes, or no weights at all.
struct OperatorInputs {
  std::string_view op_type;
  std::vector<int> packed;          // weights, 8 / bits of them in a byte
  std::string_view bits_attribute;  // 4 where absent
  std::vector<int> not_weights;     // scales, zero points, tables
};

const std::vector<OperatorInputs>& Operators() {
  static const std::vector<OperatorInputs> operators = {
      {"MatMulNBits", {1}, "bits", {2, 3, 4}},
      {"GatherBlockQuantized", {0}, "bits", {2, 3}},
      {"QMoE", {2, 5, 8}, "expert_weight_bits", {3, 6, 9, 11, 12, 13, 15, 16}},
      {"DequantizeLinear", {}, "", {1, 2}},
      {"QuantizeLinear", {}, "", {1, 2}},
      {"MatMulInteger", {}, "", {2, 3}},
      {"ConvInteger", {}, "", {2, 3}},
      {"QLinearMatMul", {}, "", {1, 2, 4, 5, 6, 7}},
      {"QLinearConv", {}, "", {1, 2, 4, 5, 6, 7}},
      {"GroupQueryAttention", {}, "", {5, 6, 7, 8}},
      {"RotaryEmbedding", {}, "", {1, 2, 3}},
  };
  return operators;
}

bool Contains(const std::vector<int>& inputs, int input) {
  return std::find(inputs.begin(), inputs.end(), input) != inputs.end();
}

// Weights in a byte of this input; 0 where it is not a weight, 1 where nothing special is known.
uint64_t WeightsPerElement(const Node& node, int input) {
  for (const OperatorInputs& known : Operators()) {
    if (node.op_type != known.op_type) continue;
    if (Contains(known.not_weights, input)) return 0;
    if (!Contains(known.packed, input)) return 1;
    const Attribute* attribute = node.FindAttribute(known.bits_attribute);
    const auto* bits = attribute ? std::get_if<int64_t>(&attribute->value) : nullptr;
    return bits && *bits > 0 && *bits <= 8 ? static_cast<uint64_t>(8 / *bits) : 2;
  }
  return 1;
}

bool CanHoldWeights(DataType type) {
  switch (type) {
    case DataType::kInt16:
    case DataType::kUint16:
    case DataType::kInt32:
    case DataType::kUint32:
    case DataType::kInt64:
    case DataType::kUint64:
    case DataType::kBool:
    case DataType::kString:
    case DataType::kUndefined:
      return false;
    default:
      return true;
  }
}

uint64_t ParametersIn(const Graph& graph, const ValueInfo& value) {
  const Initializer& initializer = graph.initializer(value.initializer);
  if (!CanHoldWeights(initializer.type)) return 0;
  uint64_t factor = 1;
  for (const Use& use : value.uses) {
    if (use.input_index == Use::kCapture) continue;
    const uint64_t of_use = WeightsPerElement(graph.node(use.node), use.input_index);
    if (of_use == 0) return 0;
    // Elements of types that are packed by themselves count one each.
    if (DataTypeBits(initializer.type) >= 8) factor = std::max(factor, of_use);
  }
  return factor * static_cast<uint64_t>(initializer.shape.num_elements());
}

}  // namespace

uint64_t CountParameters(const Graph& graph) {
  uint64_t parameters = 0;
  for (const ValueInfo& value : graph.values()) {
    if (value.initializer.valid()) parameters += ParametersIn(graph, value);
  }
  for (const Node& node : graph.nodes()) {
    if (!node.alive) continue;
    for (const Graph* subgraph : node.Subgraphs()) parameters += CountParameters(*subgraph);
  }
  return parameters;
}

}  // namespace lamina::cli
