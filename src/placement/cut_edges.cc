#include "placement/cut_edges.h"

#include <algorithm>
#include <set>

#include "model/value_size.h"
#include "provider/kernel_registry.h"

namespace lamina {

int32_t ValueLocations::Home(ValueId id) const {
  const ValueInfo& value = graph_.value(id);
  if (!value.producer.valid()) return host_;
  const NodePlacement& node = placement_.nodes[static_cast<size_t>(value.producer.index)];
  const bool on_host = node.kernel && node.kernel->def.is_host_output(value.output_index);
  return on_host ? host_ : node.device;
}

int32_t ValueLocations::ReadAt(const Use& use) const {
  const NodePlacement& node = placement_.nodes[static_cast<size_t>(use.node.index)];
  const bool on_host =
      use.input_index != Use::kCapture && node.kernel && node.kernel->def.is_host_input(use.input_index);
  return on_host ? host_ : node.device;
}

std::vector<int32_t> ValueLocations::CopiedTo(ValueId id) const {
  const ValueInfo& value = graph_.value(id);
  const bool is_constant = value.initializer.valid() && !value.is_graph_input;
  if (is_constant || value.outer.valid()) return {};
  const int32_t home = Home(id);
  std::set<int32_t> readers;
  for (const Use& use : value.uses) readers.insert(ReadAt(use));
  if (value.is_graph_output) readers.insert(host_);
  readers.erase(home);
  return {readers.begin(), readers.end()};
}

std::vector<CutEdge> FindCutEdges(const Graph& graph, const Placement& placement,
                                  std::span<const PlacementDevice> devices,
                                  std::span<const ValueId> cached_values, const SymbolBounds& bounds) {
  std::vector<CutEdge> edges;
  if (devices.size() < 2) return edges;
  const ValueLocations locations(graph, placement, devices);
  const std::set<ValueId> cached(cached_values.begin(), cached_values.end());
  for (size_t i = 0; i < graph.values().size(); ++i) {
    const ValueId id{static_cast<int32_t>(i)};
    if (cached.count(id) > 0) continue;
    for (const int32_t to : locations.CopiedTo(id)) {
      const Result<uint64_t> bytes = LargestBytes(graph, id, bounds);
      edges.push_back({id, locations.Home(id), to, bytes.ok() ? *bytes : 0});
    }
  }
  return edges;
}

}  // namespace lamina
