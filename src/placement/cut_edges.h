// Where the values of a placed graph are made and read, and what has to cross between devices.
#pragma once

#include <span>
#include <vector>

#include "model/graph.h"
#include "placement/placement.h"

namespace lamina {

// Answers for the main graph of a placement. Refers to what it is made from.
class ValueLocations {
 public:
  ValueLocations(const Graph& graph, const Placement& placement, std::span<const PlacementDevice> devices)
      : graph_(graph), placement_(placement), host_(static_cast<int32_t>(devices.size()) - 1) {}

  int32_t host() const { return host_; }
  // The device whose memory the value is made in. The caller's inputs are on the host.
  int32_t Home(ValueId id) const;
  // The device whose memory a node reads it from: the host for inputs that kernels read there.
  int32_t ReadAt(const Use& use) const;
  // Devices other than its home that read it, ascending; the host for graph outputs. Constants are not
  // copied in a run: none for them.
  std::vector<int32_t> CopiedTo(ValueId id) const;

 private:
  const Graph& graph_;
  const Placement& placement_;
  int32_t host_;
};

// By value index, then by device. `cached_values`: inputs and outputs that live in a KV cache on the device
// where they are used, and cross nothing.
std::vector<CutEdge> FindCutEdges(const Graph& graph, const Placement& placement,
                                  std::span<const PlacementDevice> devices,
                                  std::span<const ValueId> cached_values, const SymbolBounds& bounds);

}  // namespace lamina
