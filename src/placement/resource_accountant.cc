#include "placement/resource_accountant.h"

#include <limits>

#include "base/error.h"

namespace lamina {

uint64_t ApplyWorkspaceHeuristic(uint64_t base_bytes) {
  const uint64_t half = base_bytes / 2;
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  return base_bytes > kMax - half ? kMax : base_bytes + half;
}

Result<uint64_t> ComputeNodeCostForBudget(IResourceAccountant& accountant, const Graph& graph, NodeId node,
                                          std::optional<uint64_t> workspace_estimate_bytes) {
  LAMINA_ASSIGN_OR_RETURN(const uint64_t base_bytes, accountant.ComputeResourceCount(graph, node));
  if (!workspace_estimate_bytes) return ApplyWorkspaceHeuristic(base_bytes);
  uint64_t total_bytes = 0;
  if (__builtin_add_overflow(base_bytes, *workspace_estimate_bytes, &total_bytes)) {
    return InvalidModelError("the cost of node '{}' does not fit 64 bits", graph.node(node).name.view());
  }
  return total_bytes;
}

}  // namespace lamina
