#include "runtime/planned_frames.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "provider/graph_node_info.h"

namespace lamina {
namespace {

Result<FramePlan> PlanPhase(const Executable& executable, const ConstantTable& constants,
                            const DeviceDescription& device, const SymbolBounds& bounds) {
  const Graph& graph = executable.graph();
  std::vector<NodeId> order;
  std::unordered_map<int32_t, const Step*> step_of_node;
  for (const Step& step : executable.steps()) {
    if (!step.subgraphs.empty()) {
      return UnsupportedError("{} has subgraphs, which are not planned", NodeLabel(*step.node));
    }
    order.push_back(step.id);
    step_of_node[step.id.index] = &step;
  }
  FramePlanRequest request;
  request.graph = &graph;
  request.order = order;
  request.bounds = bounds;
  request.definition = [&](NodeId id) -> const KernelDef& { return step_of_node.at(id.index)->info->def; };
  request.workspace = [&](NodeId id, WorkspaceRequirements& requirements) {
    const Step& step = *step_of_node.at(id.index);
    const GraphNodeInfo info(graph, id, constants, device, bounds);
    return step.kernel->DeclareWorkspaceRequirements(info, requirements).WithContext(NodeLabel(*step.node));
  };
  request.outside = [&](ValueId id) { return graph.value(id).is_graph_output; };
  return PlanFrame(request);
}

}  // namespace

Result<std::unique_ptr<PlannedFrames>> PlannedFrames::Create(const Executable& executable,
                                                             const ConstantTable& constants,
                                                             const DeviceDescription& device,
                                                             const DecoderBounds& bounds,
                                                             Allocator& allocator) {
  std::unique_ptr<PlannedFrames> frames(new PlannedFrames(bounds, allocator));
  const auto bounds_of = [&](int64_t max_batch, int64_t max_tokens) {
    SymbolBounds symbols;
    if (!bounds.batch_symbol.empty()) symbols[bounds.batch_symbol] = {1, max_batch};
    if (!bounds.sequence_symbol.empty()) symbols[bounds.sequence_symbol] = {1, max_tokens};
    if (!bounds.past_symbol.empty()) symbols[bounds.past_symbol] = {0, bounds.context_length_tokens - 1};
    return symbols;
  };
  const int64_t chunk = std::min(bounds.prefill_chunk_tokens, bounds.context_length_tokens);
  LAMINA_ASSIGN_OR_RETURN(frames->prefill_, PlanPhase(executable, constants, device, bounds_of(1, chunk)));
  LAMINA_ASSIGN_OR_RETURN(frames->decode_,
                          PlanPhase(executable, constants, device, bounds_of(bounds.max_batch, 1)));
  frames->size_bytes_ = std::max(frames->prefill_.peak_bytes, frames->decode_.peak_bytes);
  LAMINA_ASSIGN_OR_RETURN(void* memory, allocator.Reserve(static_cast<uint64_t>(frames->size_bytes_)));
  frames->memory_ = static_cast<std::byte*>(memory);
  return frames;
}

PlannedFrames::~PlannedFrames() { allocator_.Free(memory_); }

double PlannedFrames::peak_over_lower_bound() const {
  const int64_t bound = prefill_.lower_bound_bytes + decode_.lower_bound_bytes;
  return bound == 0
             ? 1.0
             : static_cast<double>(prefill_.peak_bytes + decode_.peak_bytes) / static_cast<double>(bound);
}

PlannedFrames::Lease::~Lease() {
  if (frames_) frames_->in_use_.store(false, std::memory_order_release);
}

PlannedFrames::Lease PlannedFrames::Acquire(int64_t batch, int64_t tokens, Frame& frame) {
  const FramePlan* plan = nullptr;
  if (tokens == 1 && batch <= bounds_.max_batch) plan = &decode_;
  if (!plan && batch == 1 && tokens <= bounds_.prefill_chunk_tokens) plan = &prefill_;
  if (!plan || in_use_.exchange(true, std::memory_order_acquire)) return Lease(nullptr);
  frame.plan = plan;
  frame.memory = memory_;
  return Lease(this);
}

}  // namespace lamina
