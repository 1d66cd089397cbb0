// The units in which a budget places a model: the embedding, each layer (its experts apart where it has
// them), the head.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/graph.h"
#include "placement/layers.h"

namespace lamina {

struct PlacementUnit {
  enum class Kind : uint8_t { kEmbedding, kLayer, kExperts, kHead };
  Kind kind = Kind::kLayer;
  int layer = 0;     // as in LayerAssignment
  std::string name;  // "embedding", "layers.3", "layers.3.experts", "head"
  std::vector<NodeId> nodes;
};

// In the order of the model; units without nodes are left out. `fixed[node index]`: nodes that belong to no
// unit because something else has decided over them.
std::vector<PlacementUnit> FindPlacementUnits(const Graph& graph, std::span<const NodeId> order,
                                              const LayerAssignment& layers, const std::vector<bool>& fixed);

}  // namespace lamina
