// Groups of nodes that a provider takes as one: each becomes a node of the graph, with a body that shows the
// provider what it stands for.
#pragma once

#include <map>
#include <memory>
#include <span>

#include "lamina/status.h"
#include "model/graph.h"
#include "placement/placement.h"
#include "provider/kernel_registry.h"

namespace lamina {

// The operator of a fused node; its domain is the provider's name.
inline constexpr std::string_view kFusedOperator = "Fused";

struct FusedNode {
  // The group's nodes. Inputs and outputs are the fused node's by position, constants among them.
  std::unique_ptr<Graph> body;
  // Stands for the entry of a registry; its kernel is made by ExecutionProvider::Compile.
  std::unique_ptr<KernelCreateInfo> info;
};

// By NodeId::index of the node in the main graph.
using FusedNodes = std::map<int32_t, FusedNode>;

// Replaces the groups of `placement` in its graph and places the nodes that stand for them. INTERNAL, naming
// the provider, where a path leaves a group and comes back to it.
Result<FusedNodes> FuseGroups(Graph& graph, Placement& placement, std::span<const PlacementDevice> devices);

}  // namespace lamina
