// Which device every node runs on, and why: the result of partitioning. A value, made without weights and
// without a device.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/graph.h"
#include "provider/device_description.h"

namespace lamina {

class ProviderHostHalf;
struct KernelCreateInfo;

// A device that nodes may be placed on. Lists of them are in the order of priority, and the CPU is last.
struct PlacementDevice {
  DeviceDescription description;
  const ProviderHostHalf* provider = nullptr;
};

enum class PlacementReason : uint8_t {
  kPriority,    // the first device in order whose provider takes it
  kRule,        // a layer rule names the device
  kRequested,   // the caller of the partitioner asked for the device (the budget fit)
  kHostShapes,  // it computes shapes that kernels read on the host
  kFallback,    // the device that was wanted does not take it: see Placement::fallbacks
  kOverBudget,  // the accountant of the device that was wanted had stopped
};

// "first in order", "rule", ...: what plan prints.
std::string_view PlacementReasonName(PlacementReason reason);

struct NodePlacement {
  static constexpr int32_t kNone = -1;
  int32_t device = kNone;  // position among the devices; kNone for dead nodes
  PlacementReason reason = PlacementReason::kPriority;
  int32_t rule = kNone;         // the layer rule it falls under, also where it was not followed
  bool with_casts = false;      // runs in float between casts: its provider lacks the model's type
  int32_t fused_group = kNone;  // position in Placement::fused_groups
  // The entry of the provider's registry, which owns it; null in a fused group.
  const KernelCreateInfo* kernel = nullptr;
  uint64_t cost_bytes = 0;  // what its device's accountant counted
};

// A node that does not run on the device that a rule, a request or the order of providers wanted it on.
struct PlacementFallback {
  NodeId node;
  int32_t wanted = NodePlacement::kNone;  // device
  std::string reason;
};

// A layer rule and what became of it.
struct RuleOutcome {
  std::string text;  // "gpu(layers.[0-15])": device and item as written
  size_t nodes = 0;  // that it decided over, whether or not they run there
  std::string note;  // empty, or: it matched nothing, it can never win, no device answers
};

// A value that one device makes and another reads, copied once a run.
struct CutEdge {
  ValueId value;     // of the main graph; invalid for what is no value of it
  std::string name;  // the value's, or what it is
  int32_t from = NodePlacement::kNone;
  int32_t to = NodePlacement::kNone;
  uint64_t bytes = 0;  // largest under the bounds; 0 where they give none
};

struct FusedGroup {
  int32_t device = NodePlacement::kNone;
  std::vector<NodeId> nodes;
};

struct Placement {
  std::vector<NodePlacement> nodes;  // by NodeId::index of the main graph
  std::vector<PlacementFallback> fallbacks;
  std::vector<RuleOutcome> rules;  // in the order of the settings, ranges not expanded
  std::vector<FusedGroup> fused_groups;
  std::vector<CutEdge> cut_edges;

  int32_t DeviceOf(NodeId id) const { return nodes[static_cast<size_t>(id.index)].device; }
};

}  // namespace lamina
