// Level-2 rewrites of a graph whose nodes have been placed on several devices.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "lamina/status.h"
#include "model/model.h"
#include "placement/placement.h"
#include "provider/graph_node_info.h"

namespace lamina {

struct PlacedRewriteRequest {
  Model* model = nullptr;
  std::span<const PlacementDevice> devices;
  const ConstantValues* constants = nullptr;
  SymbolBounds bounds;
  std::string disabled;
  std::function<Status()> on_rewritten;  // see PlanRequest::Rewrites
};

// Makes the rewrites in the model's main graph and gives what they made a place: the device of what it
// replaces, and the kernel that its provider has for it. Nodes of fused groups and nodes between casts stay
// as they are. Returns whether anything changed. INTERNAL where a rewrite made a node that its provider has
// no kernel for.
Result<bool> RewritePlacedNodes(const PlacedRewriteRequest& request, Placement& placement);

}  // namespace lamina
