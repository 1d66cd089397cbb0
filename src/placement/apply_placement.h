// The graph of a placement made ready to run: with one node for each fused group, casts where a provider
// lacks a type, and then a node for every copy between devices, so that each value lies in the memory of one
// device.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "lamina/status.h"
#include "model/derived_tensor.h"
#include "model/graph.h"
#include "placement/fused_groups.h"
#include "placement/placement.h"
#include "provider/graph_node_info.h"

namespace lamina {

// The operator of copy nodes: one input, one output of its type and shape, on another device.
inline constexpr std::string_view kCopyOperator = "Copy";
inline constexpr std::string_view kCopyDomain = "lamina";
bool IsCopy(const Node& node);

// Positions among the devices of the placement, for the main graph. Everything in subgraphs is on the host.
struct PlacedGraph {
  std::vector<int32_t> node_device;   // by NodeId::index; of a copy node: where it copies to
  std::vector<int32_t> value_device;  // by ValueId::index: whose memory it lies in; the host for constants
  // By NodeId::index; null for copy nodes.
  std::vector<const KernelCreateInfo*> kernels;
  FusedNodes fused;

  int32_t DeviceOf(NodeId id) const { return node_device[static_cast<size_t>(id.index)]; }
  int32_t DeviceOf(ValueId id) const { return value_device[static_cast<size_t>(id.index)]; }
};

// Fuses groups of `graph`, which is the graph of the placement, and adds casts and copies. Constants that are
// to be cast become derived ones, added to `derived`, the model's: they are cast once, when they are loaded.
//
// Inputs of the graph that one device alone reads lie there: whoever runs the graph brings them. Outputs lie
// where they are made, or on the host where something else reads them there. `cached_values` as in
// PartitionRequest. UNSUPPORTED where a cast has no kernel; errors of
// FuseGroups.
Result<PlacedGraph> ApplyPlacement(Graph& graph, DerivedTensors& derived, const Placement& placement,
                                   std::span<const PlacementDevice> devices, const ConstantValues& constants,
                                   std::span<const ValueId> cached_values);

// Alive nodes so that producers come first, in the order of the file; copy nodes directly after what they
// copy, so that they run while other nodes compute.
Result<std::vector<NodeId>> ExecutionOrder(const Graph& graph);

}  // namespace lamina
