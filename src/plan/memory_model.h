// What a placed model takes of each device's memory: the exact evaluator behind budgets and plans.
//
// A device holds one block of weights, one block for each KV cache, and one for each execution frame. Inside
// a block every piece is aligned to kBlockAlignment; a block is rounded up to the device's granularity. A
// weight that nodes of two devices read lies on both; on the host, weights that kernels read as the model
// stores them stay mapped and take no block.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lamina/status.h"
#include "memory/offset_planner.h"
#include "model/graph.h"
#include "placement/apply_placement.h"
#include "placement/copy_schedule.h"
#include "placement/cut_edges.h"
#include "placement/placement.h"
#include "plan/frame_planner.h"
#include "plan/kv_layout.h"
#include "plan/node_demands.h"
#include "plan/phases.h"

namespace lamina {

inline constexpr uint64_t kBlockAlignment = 256;

// A weight in a device's memory: an initializer as it is, or packed for one input of a node.
struct WeightPiece {
  InitializerId initializer;
  NodeId packed_for;  // invalid: as the model stores it
  int packed_input = -1;
  uint64_t bytes = 0;
  NodeId reader;  // the first in order
  // Invalid, or the graph inside a node whose initializer it is (it counts as the node's).
  const Graph* body = nullptr;
};

struct DeviceNeed {
  std::vector<WeightPiece> weights;
  uint64_t weights_bytes = 0;   // of the block; on the host: of packed weights
  uint64_t mapped_bytes = 0;    // on the host: of the others
  uint64_t kv_cache_bytes = 0;  // of one cache
  std::vector<std::pair<NodeId, uint64_t>> kv_bytes_by_node;
  uint64_t execution_bytes = 0;   // of one frame
  FrameShares shares;             // of the phase that fills the frame most
  uint64_t packing_bytes = 0;     // that a frame must have so that weights can be packed in its memory
  std::vector<FramePlan> frames;  // by phase
  uint64_t allocated_bytes = 0;
};

struct MemoryModelRequest {
  const Graph* graph = nullptr;
  std::span<const NodeId> order;
  std::span<const PlacementDevice> devices;  // the host last
  std::span<const Phase> phases;
  std::span<const ValueSizes> sizes;  // by phase
  NodeDemands* demands = nullptr;
  const KvLayout* kv = nullptr;
  std::span<const ValueId> cached_values;  // as in PartitionRequest
  int64_t max_batch = 1;
  int64_t context_tokens = 0;
  int frames = 1;
  int kv_caches = 1;
  // Where the graph has the copies of its placement: its values, and when copies are done. Else null.
  const PlacedGraph* placed = nullptr;
  const CopySchedule* copies = nullptr;
  bool skip_unbounded = false;  // sizes are an estimate: what has no bound takes nothing
  OffsetPlannerOptions planner;
};

// Not thread-safe (it asks through NodeDemands).
class MemoryModel {
 public:
  // What `request` refers to must outlive the model.
  explicit MemoryModel(const MemoryModelRequest& request);

  // UNSUPPORTED where something has no bound; errors of kernels' declarations and of the planner.
  Result<DeviceNeed> Need(const Placement& placement, int32_t device) const;
  // No more than Need(...).allocated_bytes, without laying anything out.
  Result<uint64_t> LowerBound(const Placement& placement, int32_t device) const;

  // The weights that nodes on the device read, each once.
  Result<std::vector<WeightPiece>> Weights(const Placement& placement, int32_t device) const;
  // Bytes of the KV cache by the node that works on it (in place) or reads its past first (carried).
  const std::vector<std::pair<NodeId, uint64_t>>& kv_bytes() const { return kv_bytes_; }
  // Most that packing a weight of these nodes takes at once: scratch and originals, which are brought there
  // for it.
  Result<uint64_t> PackingBytes(const Placement& placement, std::span<const NodeId> nodes,
                                int32_t device) const;
  // What of it a frame has to hold: weights are packed before caches and frames are allocated, in the memory
  // that these get then. On the host packing has memory of its own.
  uint64_t PackingInFrame(int32_t device, uint64_t packing_bytes, uint64_t kv_cache_bytes) const;

  uint64_t Allocated(int32_t device, uint64_t weights_bytes, uint64_t kv_cache_bytes,
                     uint64_t execution_bytes) const;
  const MemoryModelRequest& request() const { return request_; }

 private:
  friend class FrameFloors;
  // What the frames of a placement are made from.
  struct Located {
    const Placement& placement;
    ValueLocations locations;
    std::vector<bool> is_cached;  // by value index: it lies in a cache, not in a frame
  };
  Located Locate(const Placement& placement) const;
  FramePlanRequest FrameRequest(const Located& located, int32_t device, size_t phase) const;
  Result<const NodeDemand*> DemandOf(const Placement& placement, NodeId node) const;
  std::vector<std::pair<NodeId, uint64_t>> KvOn(const Placement& placement, int32_t device) const;
  uint64_t KvCacheBytes(const Placement& placement, int32_t device) const;
  NodeId HolderOf(const CarriedState& state) const;
  int32_t host() const { return static_cast<int32_t>(request_.devices.size()) - 1; }
  static uint64_t BlockBytes(std::span<const WeightPiece> weights);

  const MemoryModelRequest request_;
  Status kv_status_;
  std::vector<std::pair<NodeId, uint64_t>> kv_bytes_;
  std::vector<bool> can_be_cached_;  // by value index
  std::vector<int64_t> live_until_;  // by value index
};

// What a frame has at least while certain nodes run on a device, whatever else runs there.
class FrameFloors {
 public:
  // `all_here`: as much as possible is on the device. What is referred to must outlive the object.
  FrameFloors(const MemoryModel& memory, const Placement& all_here, int32_t device);
  ~FrameFloors();
  FrameFloors(const FrameFloors&) = delete;
  FrameFloors& operator=(const FrameFloors&) = delete;

  // The largest over all phases. Errors as MemoryModel::LowerBound.
  Result<uint64_t> Of(std::span<const NodeId> nodes_in_order);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// `bytes` rounded up to a multiple of `granule_bytes`; saturates.
uint64_t RoundUpBytes(uint64_t bytes, uint64_t granule_bytes);

}  // namespace lamina
