// Budgets of partitioning: what the nodes placed on a device cost, and where placement stops.
#pragma once

#include <cstdint>
#include <optional>

#include "lamina/status.h"
#include "model/graph.h"

namespace lamina {

// Counts bytes of one device. Weights that several nodes share count once: those of nodes considered in this
// pass are pending, those of nodes that were placed are committed. Used by one thread at a time.
class IResourceAccountant {
 public:
  virtual ~IResourceAccountant() = default;

  // What nodes placed so far cost.
  virtual uint64_t GetConsumedAmount() const = 0;
  virtual void AddConsumedAmount(uint64_t bytes) = 0;
  virtual void RemoveConsumedAmount(uint64_t bytes) = 0;
  // Nothing: no limit.
  virtual std::optional<uint64_t> GetThreshold() const = 0;

  // Base cost of the node: its outputs, and its initializers that are neither pending nor committed, which
  // become pending. INVALID_MODEL where sums overflow.
  virtual Result<uint64_t> ComputeResourceCount(const Graph& graph, NodeId node) = 0;
  // The initializers of a node that was placed.
  virtual void CommitWeightsForNode(const Graph& graph, NodeId node) = 0;

  // No further node is placed in this pass.
  virtual void SetStopAssignment() = 0;
  virtual bool IsStopIssued() const = 0;
  // Forgets what is pending and the stop, so that a pass that is made again charges nothing twice.
  virtual void ResetForNewPass() = 0;
};

// The base cost with half of it again, for the scratch of a kernel without an estimate. Saturates.
uint64_t ApplyWorkspaceHeuristic(uint64_t base_bytes);

// Base cost and scratch of the node: the kernel's estimate, else the heuristic. INVALID_MODEL on overflow.
Result<uint64_t> ComputeNodeCostForBudget(IResourceAccountant& accountant, const Graph& graph, NodeId node,
                                          std::optional<uint64_t> workspace_estimate_bytes);

}  // namespace lamina
