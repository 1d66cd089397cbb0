#include "weights/constant_table.h"

#include <algorithm>

namespace lamina {
Result<ConstantTable> ConstantTable::Build(const Graph& graph, const Reader& read) {
  ConstantTable table;
  LAMINA_RETURN_IF_ERROR(table.Add(graph, read));
  return table;
}

Status ConstantTable::Add(const Graph& graph, const Reader& read) {
  LAMINA_RETURN_IF_ERROR(AddMissing(graph, read));
  for (const Node& node : graph.nodes()) {
    if (!node.alive) continue;
    for (const Graph* subgraph : node.Subgraphs()) LAMINA_RETURN_IF_ERROR(Add(*subgraph, read));
  }
  return Status();
}

Status ConstantTable::AddMissing(const Graph& graph, const Reader& read) {
  std::vector<Value>& tensors = tensors_[&graph];
  tensors.reserve(graph.initializers().size());
  for (size_t i = tensors.size(); i < graph.initializers().size(); ++i) {
    LAMINA_ASSIGN_OR_RETURN(Tensor tensor, read(graph.initializers()[i]));
    tensors.emplace_back(std::move(tensor));
  }
  return Status();
}

const Value* ConstantTable::Find(const Graph& graph, ValueId id) const {
  const Graph* owner = &graph;
  while (owner->value(id).outer.valid()) {
    id = owner->value(id).outer;
    owner = owner->parent();
  }
  return owner->value(id).is_graph_input ? nullptr : FindDefault(*owner, id);
}

void ConstantTable::Release(const Value* constant) {
  for (auto& [graph, tensors] : tensors_) {
    const auto found =
        std::find_if(tensors.begin(), tensors.end(), [&](const Value& value) { return &value == constant; });
    if (found == tensors.end() || !found->is_tensor()) continue;
    *found = Value(Tensor::View(found->tensor().type(), found->tensor().shape(), nullptr, 0));
    return;
  }
}

const Value* ConstantTable::FindDefault(const Graph& graph, ValueId id) const {
  const InitializerId initializer = graph.value(id).initializer;
  if (!initializer.valid()) return nullptr;
  static const Value not_read;
  const std::vector<Value>& tensors = tensors_.at(&graph);
  const auto index = static_cast<size_t>(initializer.index);
  return index < tensors.size() ? &tensors[index] : &not_read;
}

}  // namespace lamina
