#include "runtime/constant_evaluator.h"

#include <utility>

#include "base/error.h"
#include "runtime/session_impl.h"

namespace lamina {
namespace {

// A model of the node alone; its inputs are inputs of the graph.
std::unique_ptr<Model> ModelOf(const Graph& graph, const Node& node, std::span<const Tensor* const> inputs) {
  auto model = std::make_unique<Model>();
  model->ir_version = 10;
  model->opset_imports[node.domain.str()] = node.since_version;
  model->names = graph.shared_names();
  model->graph = std::make_unique<Graph>(model->names, nullptr);
  Graph& single = *model->graph;
  std::vector<ValueId> input_ids;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) {
      input_ids.emplace_back();
      continue;
    }
    SymbolicShape shape;
    for (const int64_t dim : inputs[i]->shape()) shape.dims.emplace_back(dim);
    const ValueId id =
        single.MakeValue("in" + std::to_string(i), ValueType::Tensor(inputs[i]->type()), std::move(shape));
    single.AddInput(id);
    input_ids.push_back(id);
  }
  std::vector<ValueId> output_ids;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    output_ids.push_back(single.MakeValue("out" + std::to_string(i)));
  }
  single.AddNode("node", node.op_type, node.domain, node.since_version, std::move(input_ids), output_ids,
                 node.attributes);
  for (const ValueId output : output_ids) single.AddOutput(output);
  return model;
}

}  // namespace

Result<std::vector<Tensor>> SessionConstantEvaluator::Evaluate(const Graph& graph, const Node& node,
                                                               std::span<const Tensor* const> inputs) {
  SessionOptions options;
  LAMINA_RETURN_IF_ERROR(options.Set("session.disabled_rewrites", "all"));
  LAMINA_RETURN_IF_ERROR(options.AppendProvider("cpu"));
  const auto make_model = [&] { return Result<std::unique_ptr<Model>>(ModelOf(graph, node, inputs)); };
  LAMINA_ASSIGN_OR_RETURN(const std::unique_ptr<SessionImpl> session,
                          SessionImpl::Create(env_, make_model, options, {}));
  RunBinding binding;
  size_t position = 0;
  for (const Tensor* input : inputs) {
    if (!input) continue;
    // A view of a file may be misaligned for its type; a copy is not.
    LAMINA_ASSIGN_OR_RETURN(Tensor copy, input->Clone());
    binding.BindInput(position++, Value(std::move(copy)));
  }
  LAMINA_RETURN_IF_ERROR(session->Run({}, binding));
  std::vector<Tensor> outputs;
  for (const Value& output : binding.outputs()) {
    if (!output.is_tensor()) return UnsupportedError("{} gives no tensor", node.op_type.view());
    // The run's memory belongs to the session's arena: the constant gets its own.
    LAMINA_ASSIGN_OR_RETURN(Tensor copy, output.tensor().Clone());
    outputs.push_back(std::move(copy));
  }
  return outputs;
}

}  // namespace lamina
