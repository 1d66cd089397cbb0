#include "rewrite/convert/quantize_weights.h"

#include "rewrite/graph_editor.h"

namespace lamina {
namespace {

struct Product {
  ValueId x;
  ValueId weight;
  ValueId bias;
};

std::optional<Product> ProductOf(const GraphEditor& editor, NodeId id) {
  const ValueId weight = editor.Input(id, 1);
  const SymbolicShape* shape = editor.ShapeOf(weight);
  if (!editor.IsConstant(weight) || !shape || shape->rank() != 2) return {};
  const DataType type = editor.Type(weight);
  if (type != DataType::kFloat && type != DataType::kFloat16 && type != DataType::kBfloat16) return {};
  if (editor.Is(id, "MatMul")) {
    const SymbolicShape* x = editor.ShapeOf(editor.Input(id, 0));
    if (!x || x->rank() < 2) return {};
    return Product{editor.Input(id, 0), weight, {}};
  }
  if (!editor.Is(id, "Gemm") || editor.Int(id, "transA", 0) != 0 || editor.Int(id, "transB", 0) != 0 ||
      editor.Float(id, "alpha", 1) != 1 || editor.Float(id, "beta", 1) != 1) {
    return {};
  }
  const ValueId bias = editor.Input(id, 2);
  const SymbolicShape* bias_shape = editor.ShapeOf(bias);
  if (bias.valid() && (!bias_shape || bias_shape->rank() != 1 || !(bias_shape->dims[0] == shape->dims[1]))) {
    return {};
  }
  return Product{editor.Input(id, 0), weight, bias};
}

}  // namespace

Result<std::vector<QuantizedWeight>> QuantizeWeights(Model& model, const QuantizeOptions& options) {
  RewriteEnvironment environment;
  environment.model = &model;
  GraphEditor editor(*model.graph, environment);
  std::vector<QuantizedWeight> quantized;
  LAMINA_ASSIGN_OR_RETURN(const std::vector<NodeId> order, model.graph->TopologicalOrder());
  for (const NodeId id : order) {
    const std::optional<Product> product = ProductOf(editor, id);
    if (!product) continue;
    const DerivedTensorPtr weight = editor.ExpressionOf(product->weight);
    if (weight->shape[0] < options.block_size) continue;
    LAMINA_ASSIGN_OR_RETURN(const QuantizedMatrix matrix,
                            DeriveQuantized(weight, options.bits, options.block_size));
    const std::string name = editor.value(product->weight).name.str();
    std::vector<ValueId> inputs = {product->x, editor.AddDerived(name + "_quant", matrix.packed),
                                   editor.AddDerived(name + "_scales", matrix.scales)};
    if (product->bias.valid()) inputs.insert(inputs.end(), {ValueId(), ValueId(), product->bias});
    const NodeId made = editor.Replace(
        id, "MatMulNBits",
        {"MatMulNBits",
         kMicrosoftDomain,
         std::move(inputs),
         {editor.MakeAttribute("K", weight->shape[0]), editor.MakeAttribute("N", weight->shape[1]),
          editor.MakeAttribute("bits", int64_t{options.bits}),
          editor.MakeAttribute("block_size", options.block_size)}});
    quantized.push_back({made, name, weight->shape[0], weight->shape[1], matrix.packed});
  }
  return quantized;
}

}  // namespace lamina
