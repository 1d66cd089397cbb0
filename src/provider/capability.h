// Which nodes of a graph a provider takes.
#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "lamina/status.h"
#include "model/graph.h"
#include "provider/device_description.h"
#include "provider/node_info.h"

namespace lamina {

// The question: which of `nodes` would run on `device`?
struct CapabilityRequest {
  const Graph* graph = nullptr;
  // Those the provider may take, in topological order. Others of the graph belong to other devices or were
  // taken before.
  std::span<const NodeId> nodes;
  const DeviceDescription* device = nullptr;
  // What the provider may know of a node, under the bounds that are planned. Valid while the request is.
  std::function<const NodeInfo&(NodeId)> info;
};

// The answer. A node that is in none of the lists was not taken, without a reason.
struct Capability {
  // Run one by one, by kernels of the provider's registry.
  std::vector<NodeId> nodes;
  // Each group becomes one node, whose kernel ExecutionProvider::Compile makes. Nodes of a group are nodes of
  // the request, in topological order, and no path leaves the group and comes back.
  std::vector<std::vector<NodeId>> fused;
  // Not taken, and why.
  std::vector<std::pair<NodeId, Status>> refused;
};

}  // namespace lamina
