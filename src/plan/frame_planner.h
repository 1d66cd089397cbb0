// Where every value and every workspace slot of a graph lies in the execution buffer of a run, for all
// bindings of the dimensions that a phase admits (prefill, decode): the memory a run needs is known before
// it, and it allocates nothing.
//
// A value's planned size is the largest its shape takes over the bounds. It is live from the step that makes
// it through the last that reads it; a workspace slot in its node's step only. Values that a kernel may alias
// (Reshape) or overwrite (in place) share memory with their input where nothing else reads it later and the
// sizes are equal.
//
// Of a graph on several devices each device has a frame of its own. It holds what is made in its memory and
// copies of what its nodes read of others: those are there from the step that makes the value, so that a copy
// may run as early as it can, through the last that reads it here. Inputs of the graph that lie on the device
// are there before the first step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "lamina/status.h"
#include "memory/offset_planner.h"
#include "memory/workspace_pattern.h"
#include "model/graph.h"
#include "plan/value_sizes.h"
#include "provider/kernel.h"
#include "provider/kernel_registry.h"

namespace lamina {

struct FramePlanRequest {
  const Graph* graph = nullptr;
  std::span<const NodeId> order;  // of execution
  const ValueSizes* sizes = nullptr;
  // The kernel's definition, and its declared workspace under the bounds.
  std::function<const KernelDef&(NodeId)> definition;
  std::function<Status(NodeId, WorkspaceRequirements&)> workspace;
  // Whether the node's workspace is not the kernel's declaration but a reserve (kReserveSlot); null: none is.
  std::function<bool(NodeId)> has_reserve;
  // Whether the value needs no place in the frame: inputs and outputs in memory of the caller, KV caches.
  std::function<bool(ValueId)> outside;
  // Of a graph on several devices: whether a node runs on the device whose frame this is, and whether a value
  // is made in its memory (for an input of the graph: lies there). Null: all of them.
  std::function<bool(NodeId)> runs_here;
  std::function<bool(ValueId)> is_home;
  // Whether the value is read in the device's memory by this use: such values of other devices get a place
  // for a copy. Null: the graph has nodes that copy, every value lies on one device.
  std::function<bool(ValueId, const Use&)> reads_here;
  // Whether a node brings its input from another device's memory; null: none does.
  std::function<bool(NodeId)> is_copy;
  // By value index, or empty: steps before whose end the value's memory is given to nobody else.
  std::span<const int64_t> live_until;
  // Values without a bound get no place; otherwise they are an error.
  bool skip_unbounded = false;
  OffsetPlannerOptions planner;
};

// One buffer of a frame.
struct FrameBuffer {
  enum class Kind : uint8_t { kValue, kCopy, kWorkspace };
  Kind kind = Kind::kValue;
  int32_t value = -1;    // its index; of a workspace slot: -1
  int32_t node = -1;     // of a workspace slot: the index of its node
  int32_t slot_id = -1;  // of a workspace slot
  int64_t size_bytes = 0;
  int64_t offset_bytes = 0;
  int64_t lower = 0;  // live steps [lower, upper)
  int64_t upper = 0;
  int64_t alias_group = -1;  // members lie at one offset
};

// The footprints that are live at the fullest step.
struct FrameShares {
  int64_t values_bytes = 0;
  int64_t copies_bytes = 0;
  int64_t workspace_bytes = 0;
  int64_t total_bytes() const { return values_bytes + copies_bytes + workspace_bytes; }
};

struct FramePlan {
  static constexpr int64_t kNotPlanned = -1;
  // By value index; kNotPlanned for values outside. A value of another device: where its copy lies.
  std::vector<int64_t> offsets;
  std::vector<int64_t> sizes_bytes;
  // By value index: the input value whose memory the value takes over, or -1.
  std::vector<int32_t> takes_over;
  WorkspacePattern workspace;
  int64_t peak_bytes = 0;
  int64_t lower_bound_bytes = 0;
  FrameShares shares;  // their total is the lower bound
  std::vector<FrameBuffer> buffers;
};

// UNSUPPORTED where a value's size or a workspace has no bound: the text names value or node and dimension;
// the caller then runs without a plan. Other errors are those of the planner and of declarations.
Result<FramePlan> PlanFrame(const FramePlanRequest& request);

// The shares alone, without a layout: no frame is smaller than their total. Errors as PlanFrame.
Result<FrameShares> FrameLowerBound(const FramePlanRequest& request);

// What the frame holds at least while some of its nodes run, whichever others are on the device: what they
// make and read, in the steps of these nodes alone. Cheap to ask for one group of nodes after another.
class FrameFloor {
 public:
  // What `request` refers to must outlive the object; its `reads_here` is set.
  explicit FrameFloor(const FramePlanRequest& request);
  FrameFloor(FrameFloor&&) noexcept;
  FrameFloor& operator=(FrameFloor&&) = delete;
  ~FrameFloor();

  // Bytes. The nodes run on the device and are in the order of execution. Errors as PlanFrame.
  Result<int64_t> Of(std::span<const NodeId> nodes);

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace lamina
