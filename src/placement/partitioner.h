// Assigns every node of a model to a device.
//
// Devices are asked in order. Each sees the nodes that nothing has been decided for and those that a layer
// rule or the caller assigns to it; others are hidden from it. What its provider takes stays there (until the
// device's accountant stops); what was assigned to it and is not taken is free for those after it, and the
// fallback says why. The CPU is last and takes the rest; a model with a node that it does not take is
// UNSUPPORTED.
//
// A node whose float16 or bfloat16 a provider lacks stays there all the same where the provider computes it
// in float: with casts around it. Not so where the node works on a KV cache.
//
// A node with subgraphs is placed whole, on the CPU: values that its bodies capture are copied there once.
//
// Nodes that compute small integer tensors from shapes, for kernels that read them on the host, run on the
// CPU whatever their device would be: the values would cross twice.
#pragma once

#include <span>
#include <vector>

#include "lamina/status.h"
#include "model/graph.h"
#include "placement/layer_rules.h"
#include "placement/placement.h"
#include "placement/resource_accountant.h"
#include "provider/graph_node_info.h"
#include "provider/provider.h"

namespace lamina {

struct PartitionRequest {
  const Graph* graph = nullptr;
  std::span<const PlacementDevice> devices;
  const ConstantValues* constants = nullptr;
  SymbolBounds bounds;

  const LayerRules* rules = nullptr;  // null: none
  // session.allow_unmatched_layer_devices: a rule whose device is not there is a note, not an error.
  bool allow_unmatched_devices = false;
  // session.disable_cpu_ep_fallback: a node that runs on the CPU though a rule or the order wanted another
  // device is an error.
  bool disable_cpu_fallback = false;

  // By node index, empty or kNone where nothing is asked for: the device the caller wants. Rules come first.
  std::span<const int32_t> requested;
  // Inputs and outputs of the graph that a KV cache can hold, in pairs: a past, the present that follows it.
  // Where both are on one device they cross nothing.
  std::span<const ValueId> cached_values;
  // By device; empty, or null where the device has no budget of this kind. The partitioner resets them, and
  // charges nothing: see ChargePlacement.
  std::span<IResourceAccountant* const> accountants;
};

// NOT_FOUND for a rule's device that no provider answers; UNSUPPORTED naming a node that nothing runs, or a
// fallback to the CPU where that is disabled; errors of accountants and of GetCapability.
Result<Placement> PartitionGraph(const PartitionRequest& request);

// Adds what the placement costs to the accountants and commits its weights. Not called for a placement that
// is made again.
void ChargePlacement(const Graph& graph, const Placement& placement,
                     std::span<IResourceAccountant* const> accountants);

}  // namespace lamina
