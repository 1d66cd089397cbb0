// Where the values of a placed graph are made and read, and what has to cross between devices.
#pragma once

#include <set>
#include <span>
#include <vector>

#include "model/graph.h"
#include "placement/placement.h"

namespace lamina {

// One copy of a value, made once a run.
struct CopyRoute {
  int32_t from = NodePlacement::kNone;
  int32_t to = NodePlacement::kNone;
};

// Answers for the main graph of a placement. Refers to what it is made from.
class ValueLocations {
 public:
  ValueLocations(const Graph& graph, const Placement& placement, std::span<const PlacementDevice> devices)
      : graph_(graph), placement_(placement), devices_(devices) {}

  int32_t host() const { return static_cast<int32_t>(devices_.size()) - 1; }
  // The device whose memory the value is made in. The caller's inputs are on the host.
  int32_t Home(ValueId id) const;
  // The device whose memory a node reads it from: the host for inputs that kernels read there.
  int32_t ReadAt(const Use& use) const;
  // How the value gets from its home to all others that read it (the host, where it is a graph output and
  // `fetched`): one copy for each, the host's first. Between devices of different providers it goes through
  // the host. Empty for constants, which are not copied in a run.
  std::vector<CopyRoute> Routes(ValueId id, bool fetched) const;
  // Whether anything on the device reads the value there.
  bool IsReadAt(ValueId id, int32_t device) const;
  // Of pairs of past and present (PartitionRequest::cached_values): those whose past is read only on the
  // device that makes the present. A KV cache there holds them and neither is brought or fetched.
  std::set<ValueId> StayInCache(std::span<const ValueId> cached_values) const;

 private:
  bool NeedsHost(int32_t from, int32_t to) const;

  const Graph& graph_;
  const Placement& placement_;
  std::span<const PlacementDevice> devices_;
};

// By value index. `cached_values` as in PartitionRequest; where in the cache each row lies crosses once to
// every device with caches: edges without a value.
std::vector<CutEdge> FindCutEdges(const Graph& graph, const Placement& placement,
                                  std::span<const PlacementDevice> devices,
                                  std::span<const ValueId> cached_values, const SymbolBounds& bounds);

}  // namespace lamina
