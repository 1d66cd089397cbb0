#include "plan/units.h"

#include <map>
#include <utility>

namespace lamina {
namespace {

bool IsExperts(const Node& node) { return node.op_type == "MoE" || node.op_type == "QMoE"; }

}  // namespace

std::vector<PlacementUnit> FindPlacementUnits(const Graph& graph, std::span<const NodeId> order,
                                              const LayerAssignment& layers, const std::vector<bool>& fixed) {
  std::map<std::pair<int, bool>, PlacementUnit> units;  // by layer and whether they are its experts
  for (const NodeId id : order) {
    if (fixed[static_cast<size_t>(id.index)]) continue;
    const int layer = layers.OfNode(id);
    const bool is_end = layer == LayerAssignment::kEmbedding || layer == layers.head();
    const bool experts = !is_end && IsExperts(graph.node(id));
    PlacementUnit& unit = units[{layer, experts}];
    if (unit.nodes.empty()) {
      unit.layer = layer;
      unit.name = std::string(layers.NameOf(layer)) + (experts ? ".experts" : "");
      unit.kind = layer == LayerAssignment::kEmbedding ? PlacementUnit::Kind::kEmbedding
                  : layer == layers.head()             ? PlacementUnit::Kind::kHead
                  : experts                            ? PlacementUnit::Kind::kExperts
                                                       : PlacementUnit::Kind::kLayer;
    }
    unit.nodes.push_back(id);
  }
  std::vector<PlacementUnit> in_order;
  in_order.reserve(units.size());
  for (auto& [key, unit] : units) in_order.push_back(std::move(unit));
  return in_order;
}

}  // namespace lamina
