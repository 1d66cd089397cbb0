// What nodes ask of the device they run on: scratch in each phase, and how their weights are stored there.
// Made by asking kernels, which needs neither weights nor the device.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "lamina/status.h"
#include "model/graph.h"
#include "placement/placement.h"
#include "plan/plan.h"
#include "plan/value_sizes.h"
#include "provider/graph_node_info.h"
#include "provider/kernel.h"

namespace lamina {

// A weight that a kernel packs.
struct PackedInput {
  int input = 0;
  uint64_t packed_bytes = 0;
  uint64_t scratch_bytes = 0;
  uint32_t absorbed_inputs = 0;  // as PrepackDeclaration
};

struct NodeDemand {
  std::vector<WorkspaceRequirements> workspace;  // by phase
  EstimateSource source = EstimateSource::kExact;
  std::vector<PackedInput> packed;

  // Whether the kernel reads this constant input as the model stores it.
  bool ReadsOriginal(int input) const;
  uint64_t LargestWorkspaceBytes() const;
};

// Answers for the main graph; remembers what it asked. Not thread-safe.
class NodeDemands {
 public:
  // `sizes`: of the phases. `prepack`: weights are packed also where kernels can do without. Everything must
  // outlive the object.
  NodeDemands(const Graph& graph, std::span<const PlacementDevice> devices, const ConstantValues& constants,
              std::span<const ValueSizes> sizes, bool prepack);

  // `at`: where the node is placed. A copy needs nothing. A kernel that cannot say what scratch it needs
  // (UNSUPPORTED), and that of a fused group, which is not made before the load, gets half of the node's base
  // cost, its outputs and initializers. Other errors of kernels come back with the node's name.
  Result<const NodeDemand*> Of(NodeId node, const NodePlacement& at);

 private:
  Result<NodeDemand> Ask(NodeId node, const NodePlacement& at) const;
  Status AddReserve(NodeId node, size_t phase, NodeDemand& demand) const;
  uint64_t BaseBytes(NodeId node, const ValueSizes& sizes) const;

  const Graph& graph_;
  std::span<const PlacementDevice> devices_;
  const ConstantValues& constants_;
  std::span<const ValueSizes> sizes_;
  const bool prepack_;
  std::vector<int32_t> class_of_device_;  // devices that differ in nothing a kernel can see share answers
  std::vector<std::vector<std::unique_ptr<NodeDemand>>> demands_;  // by class, then by node
};

}  // namespace lamina
