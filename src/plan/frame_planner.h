// Where every value and every workspace slot of a graph lies in the execution buffer of a run, for all
// bindings of the dimensions that a phase admits (prefill, decode): the memory a run needs is known before
// it, and it allocates nothing.
//
// A value's planned size is the largest its shape takes over the bounds. It is live from the step that makes
// it through the last that reads it; a workspace slot in its node's step only. Values that a kernel may alias
// (Reshape) or overwrite (in place) share memory with their input where nothing else reads it later and the
// sizes are equal.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "lamina/status.h"
#include "memory/offset_planner.h"
#include "memory/workspace_pattern.h"
#include "model/graph.h"
#include "provider/kernel.h"
#include "provider/kernel_registry.h"

namespace lamina {

struct FramePlanRequest {
  const Graph* graph = nullptr;
  std::span<const NodeId> order;  // of execution
  SymbolBounds bounds;
  // The kernel's definition, and its declared workspace under the bounds.
  std::function<const KernelDef&(NodeId)> definition;
  std::function<Status(NodeId, WorkspaceRequirements&)> workspace;
  // Whether the value needs no place in the frame: constants, inputs that the caller's memory holds, outputs
  // that the caller gets, KV caches, what lies on another device. Inputs of the graph that are not outside
  // are there before the first step.
  std::function<bool(ValueId)> outside;
  // By value index, or empty: steps before which the value's memory is given to nobody else.
  std::span<const int64_t> live_until;
  OffsetPlannerOptions planner;
};

struct FramePlan {
  static constexpr int64_t kNotPlanned = -1;
  // By value index; kNotPlanned for values outside.
  std::vector<int64_t> offsets;
  std::vector<int64_t> sizes_bytes;
  // By value index: the input value whose memory the value takes over, or -1.
  std::vector<int32_t> takes_over;
  WorkspacePattern workspace;
  int64_t peak_bytes = 0;
  int64_t lower_bound_bytes = 0;
};

// UNSUPPORTED where a value's size or a workspace has no bound: the text names value or node and dimension;
// the caller then runs without a plan. Other errors are those of the planner and of declarations.
Result<FramePlan> PlanFrame(const FramePlanRequest& request);

}  // namespace lamina
