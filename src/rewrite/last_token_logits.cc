#include "rewrite/last_token_logits.h"

#include <array>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

namespace lamina {
namespace {

constexpr int kTokenAxis = 1;

bool IsProduct(const Node& node) { return node.op_type == "MatMul" || node.op_type == "MatMulNBits"; }

bool IsElementwise(const Node& node) {
  constexpr std::array<std::string_view, 7> kElementwise = {"Cast", "Mul",  "Div",     "Add",
                                                            "Sub",  "Tanh", "Identity"};
  for (const std::string_view op_type : kElementwise) {
    if (node.domain.empty() && node.op_type == op_type) return true;
  }
  return false;
}

// The one input of the node that depends on the tokens; the others must be constants that have no token axis.
std::optional<int> TokenInput(const Graph& graph, const Node& node) {
  std::optional<int> found;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].valid()) continue;
    if (const Initializer* constant = graph.ConstantOf(node.inputs[i])) {
      if (!IsProduct(node) && constant->shape.rank() > 1) return {};
      continue;
    }
    if (found) return {};
    found = static_cast<int>(i);
  }
  return found;
}

bool HasTokenAxis(const ValueInfo& value) { return value.shape && value.shape->rank() == 3; }

ValueId AddIntConstant(Graph& graph, std::string_view base, int64_t value) {
  const ValueId id = graph.MakeValue(graph.GenerateValueName(base), ValueType::Tensor(DataType::kInt64),
                                     SymbolicShape{{DimExpr(1)}});
  Result<Tensor> tensor =
      Tensor::FromValues<int64_t>(DataType::kInt64, Shape{1}, std::array<int64_t, 1>{value});
  if (!tensor.ok()) return {};
  graph.AddInitializer(id, Initializer{graph.value(id).name, DataType::kInt64, Shape{1}, *std::move(tensor)});
  return id;
}

// The token axis of what is kept. One token is always there; of more, no more than the run has.
DimExpr KeptTokens(const DimExpr& tokens, int64_t num_tokens) {
  return num_tokens == 1 ? DimExpr(1) : DimExpr::Min(tokens, DimExpr(num_tokens));
}

}  // namespace

bool KeepLastTokenLogits(Model& model, int logits_output, int64_t num_tokens) {
  Graph& graph = *model.graph;
  const auto opset = model.opset_imports.find("");
  constexpr int kFirstSliceWithInputs = 10;
  if (opset == model.opset_imports.end() || opset->second < kFirstSliceWithInputs) return false;
  // From the output up to the product.
  std::vector<ValueId> on_the_way;
  ValueId id = graph.outputs()[static_cast<size_t>(logits_output)];
  for (;;) {
    const ValueInfo& value = graph.value(id);
    const size_t allowed_uses = on_the_way.empty() ? 0 : 1;
    if (!HasTokenAxis(value) || !value.producer.valid() || value.uses.size() != allowed_uses ||
        (value.is_graph_output && !on_the_way.empty())) {
      return false;
    }
    const Node& node = graph.node(value.producer);
    const std::optional<int> input = TokenInput(graph, node);
    if (!input || (!IsProduct(node) && !IsElementwise(node)) || (IsProduct(node) && *input != 0))
      return false;
    on_the_way.push_back(id);
    const ValueId source = node.inputs[static_cast<size_t>(*input)];
    if (!IsProduct(node)) {
      id = source;
      continue;
    }
    if (!HasTokenAxis(graph.value(source))) return false;
    const NodeId product = value.producer;
    const std::string base = node.name.str() + "/LastToken";
    SymbolicShape shape = *graph.value(source).shape;
    const DimExpr kept = KeptTokens(shape.dims[kTokenAxis], num_tokens);
    shape.dims[kTokenAxis] = kept;
    const ValueId last =
        graph.MakeValue(graph.GenerateValueName(base + "_output"), graph.value(source).type, shape);
    const ValueId starts = AddIntConstant(graph, base + "_starts", -num_tokens);
    const ValueId ends = AddIntConstant(graph, base + "_ends", std::numeric_limits<int64_t>::max());
    const ValueId axes = AddIntConstant(graph, base + "_axes", kTokenAxis);
    if (!starts.valid() || !ends.valid() || !axes.valid()) return false;
    graph.AddNode(graph.GenerateNodeName(base), "Slice", "", opset->second, {source, starts, ends, axes},
                  {last}, {}, node.metadata_props);
    graph.SetInput(product, 0, last);
    for (const ValueId changed : on_the_way) graph.mutable_value(changed).shape->dims[kTokenAxis] = kept;
    return true;
  }
}

}  // namespace lamina
