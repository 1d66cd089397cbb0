#include "plan/planning_constants.h"

#include <utility>

#include "model/shape_inference/shape_inference.h"

namespace lamina {

PlanningConstants::PlanningConstants(const Graph& graph, Reader read_external)
    : read_external_(std::move(read_external)) {
  Add(graph);
}

void PlanningConstants::Add(const Graph& graph) {
  constants_.emplace(&graph, std::vector<Constant>(graph.initializers().size()));
  for (const Node& node : graph.nodes()) {
    if (!node.alive) continue;
    for (const Graph* body : node.Subgraphs()) Add(*body);
  }
}

Value PlanningConstants::Read(const Initializer& initializer) const {
  if (initializer.size_bytes() > kMaxInferenceConstantBytes) return {};
  if (std::optional<Tensor> tensor = initializer.InMemory()) return Value(*std::move(tensor));
  if (!initializer.is_external() || !read_external_) return {};
  Result<Tensor> read = read_external_(initializer);
  return read.ok() ? Value(*std::move(read)) : Value();
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
  std::vector<Constant>& constants = constants_.at(owner);
  const auto index = static_cast<size_t>(value.initializer.index);
  if (index >= constants.size()) return &unknown;
  Constant& constant = constants[index];
  if (!constant.was_read) constant = {true, Read(owner->initializer(value.initializer))};
  return &constant.value;
}

}  // namespace lamina
