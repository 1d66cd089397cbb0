#include "plan/unit_costs.h"

#include <algorithm>
#include <utility>

namespace lamina {
namespace {

constexpr size_t kNoUnit = static_cast<size_t>(-1);

}  // namespace

Result<UnitCosts> UnitCosts::Make(const MemoryModel& memory, std::span<const PlacementUnit> units,
                                  const Placement& all_here, int32_t device) {
  UnitCosts costs(memory, device);
  costs.costs_.resize(units.size());
  std::vector<size_t> unit_of_node(all_here.nodes.size(), kNoUnit);
  FrameFloors floors(memory, all_here, device);
  for (size_t unit = 0; unit < units.size(); ++unit) {
    std::vector<NodeId> here;
    for (const NodeId id : units[unit].nodes) {
      if (all_here.DeviceOf(id) != device) continue;
      unit_of_node[static_cast<size_t>(id.index)] = unit;
      here.push_back(id);
    }
    LAMINA_ASSIGN_OR_RETURN(costs.costs_[unit].frame_bytes, floors.Of(here));
    LAMINA_ASSIGN_OR_RETURN(costs.costs_[unit].packing_bytes, memory.PackingBytes(all_here, here, device));
  }

  const Graph& graph = *memory.request().graph;
  LAMINA_ASSIGN_OR_RETURN(const std::vector<WeightPiece> pieces, memory.Weights(all_here, device));
  std::vector<size_t> readers;
  for (const WeightPiece& piece : pieces) {
    const uint64_t bytes = RoundUpBytes(piece.bytes, kBlockAlignment);
    readers.clear();
    const auto add_reader = [&](NodeId id) {
      const size_t unit = unit_of_node[static_cast<size_t>(id.index)];
      if (unit != kNoUnit) readers.push_back(unit);
    };
    add_reader(piece.reader);
    if (!piece.packed_for.valid() && !piece.body) {
      const ValueId value = graph.FindValue(graph.initializer(piece.initializer).name.view());
      for (const Use& use : graph.value(value).uses) add_reader(use.node);
    }
    std::sort(readers.begin(), readers.end());
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    if (readers.size() == 1) costs.costs_[readers.front()].weights_bytes += bytes;
    if (readers.size() <= 1) continue;
    for (const size_t unit : readers) costs.costs_[unit].shared.push_back(costs.shared_bytes_.size());
    costs.shared_bytes_.push_back(bytes);
  }
  for (const auto& [node, bytes] : memory.kv_bytes()) {
    const size_t unit = node.valid() ? unit_of_node[static_cast<size_t>(node.index)] : kNoUnit;
    if (unit != kNoUnit) costs.costs_[unit].kv_bytes += bytes;
  }

  std::vector<std::pair<uint64_t, size_t>> keyed;
  for (size_t unit = 0; unit < units.size(); ++unit) keyed.emplace_back(costs.Resident(unit), unit);
  std::sort(keyed.begin(), keyed.end());
  for (const auto& [bytes, unit] : keyed) costs.smallest_first_.push_back(unit);
  return costs;
}

uint64_t UnitCosts::Resident(size_t unit) const {
  const Cost& cost = costs_[unit];
  uint64_t bytes = cost.weights_bytes + cost.kv_bytes;
  for (const size_t shared : cost.shared) bytes += shared_bytes_[shared];
  return bytes;
}

void UnitCosts::Sum::Add(size_t unit) {
  const Cost& cost = costs_.costs_[unit];
  weights_bytes_ += cost.weights_bytes;
  kv_bytes_ += cost.kv_bytes;
  frame_bytes_ = std::max(frame_bytes_, cost.frame_bytes);
  packing_bytes_ = std::max(packing_bytes_, cost.packing_bytes);
  for (const size_t shared : cost.shared) {
    if (shared_counted_[shared]) continue;
    shared_counted_[shared] = true;
    weights_bytes_ += costs_.shared_bytes_[shared];
  }
}

uint64_t UnitCosts::Sum::least_allocated_bytes() const {
  const uint64_t packing_bytes = costs_.memory_.PackingInFrame(costs_.device_, packing_bytes_, kv_bytes_);
  return costs_.memory_.Allocated(costs_.device_, weights_bytes_, kv_bytes_,
                                  std::max(frame_bytes_, packing_bytes));
}

}  // namespace lamina
