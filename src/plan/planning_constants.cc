#include "plan/planning_constants.h"

#include "model/shape_inference/shape_inference.h"

namespace lamina {

PlanningConstants::PlanningConstants(const Graph& graph, const Reader& read_external) {
  Add(graph, read_external);
}

void PlanningConstants::Add(const Graph& graph, const Reader& read_external) {
  std::vector<Value> values(graph.initializers().size());
  for (size_t i = 0; i < values.size(); ++i) {
    const Initializer& initializer = graph.initializers()[i];
    if (initializer.size_bytes() > kMaxInferenceConstantBytes) continue;
    if (std::optional<Tensor> tensor = initializer.InMemory()) {
      values[i] = Value(*std::move(tensor));
    } else if (initializer.is_external() && read_external) {
      Result<Tensor> read = read_external(initializer);
      if (read.ok()) values[i] = Value(*std::move(read));
    }
  }
  values_.emplace(&graph, std::move(values));
  for (const Node& node : graph.nodes()) {
    if (!node.alive) continue;
    for (const Graph* body : node.Subgraphs()) Add(*body, read_external);
  }
}

const Value* PlanningConstants::Find(const Graph& graph, ValueId id) const {
  const Graph* owner = &graph;
  while (owner->value(id).outer.valid()) {
    id = owner->value(id).outer;
    owner = owner->parent();
  }
  const ValueInfo& value = owner->value(id);
  if (value.is_graph_input || !value.initializer.valid()) return nullptr;
  static const Value unknown;  // of what was added to the graph since: casts of constants
  const std::vector<Value>& values = values_.at(owner);
  const auto index = static_cast<size_t>(value.initializer.index);
  return index < values.size() ? &values[index] : &unknown;
}

}  // namespace lamina
