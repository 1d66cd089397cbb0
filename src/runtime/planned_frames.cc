#include "runtime/planned_frames.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "provider/graph_node_info.h"

namespace lamina {
namespace {

// Plans the frames of an executable, one device and phase at a time.
class PhasePlanner {
 public:
  PhasePlanner(const Executable& executable, const ConstantTable& constants, const SessionDevices& devices,
               const std::function<bool(ValueId)>& in_cache)
      : executable_(executable), constants_(constants), devices_(devices), in_cache_(in_cache) {
    live_until_ = executable.copies().live_until;
    live_until_.resize(graph().values().size(), 0);
    // Outputs are fetched after the last step.
    for (const ValueId id : graph().outputs()) {
      live_until_[static_cast<size_t>(id.index)] = static_cast<int64_t>(executable.steps().size());
    }
  }

  Status Init() {
    for (const Step& step : executable_.steps()) {
      if (!step.subgraphs.empty()) {
        return UnsupportedError("{} has subgraphs, which are not planned", NodeLabel(*step.node));
      }
      order_.push_back(step.id);
      step_of_node_[step.id.index] = &step;
    }
    return Status();
  }

  Result<FramePlan> Plan(int32_t device, const SymbolBounds& bounds, const ValueSizes& sizes) const {
    FramePlanRequest request;
    request.graph = &graph();
    request.order = order_;
    request.sizes = &sizes;
    request.definition = [&](NodeId id) -> const KernelDef& { return StepOf(id).info->def; };
    request.workspace = [&](NodeId id, WorkspaceRequirements& requirements) -> Status {
      const Step& step = StepOf(id);
      if (step.device != device || !step.kernel) return Status();
      const GraphNodeInfo info(graph(), id, constants_, DeviceAt(device).description, bounds);
      return step.kernel->DeclareWorkspaceRequirements(info, requirements).WithContext(NodeLabel(*step.node));
    };
    request.outside = [&](ValueId id) { return IsOutside(id, device); };
    request.runs_here = [&, device](NodeId id) { return StepOf(id).device == device; };
    request.is_home = [&, device](ValueId id) { return executable_.DeviceOf(id) == device; };
    request.is_copy = [&](NodeId id) { return IsCopy(*StepOf(id).node); };
    request.live_until = live_until_;
    return PlanFrame(request);
  }

 private:
  const Graph& graph() const { return executable_.graph(); }
  const Step& StepOf(NodeId id) const { return *step_of_node_.at(id.index); }
  const SessionDevice& DeviceAt(int32_t device) const { return devices_[static_cast<size_t>(device)]; }

  bool IsOutside(ValueId id, int32_t device) const {
    if (in_cache_(id)) return true;
    const ValueInfo& value = graph().value(id);
    // The caller's memory on the host.
    return DeviceAt(device).is_host() && (value.is_graph_input || value.is_graph_output);
  }

  const Executable& executable_;
  const ConstantTable& constants_;
  const SessionDevices& devices_;
  const std::function<bool(ValueId)>& in_cache_;
  std::vector<NodeId> order_;
  std::unordered_map<int32_t, const Step*> step_of_node_;
  std::vector<int64_t> live_until_;
};

}  // namespace

Result<std::unique_ptr<PlannedFrames>> PlannedFrames::Create(const Executable& executable,
                                                             const ConstantTable& constants,
                                                             const SessionDevices& devices,
                                                             const DecoderBounds& bounds,
                                                             const std::function<bool(ValueId)>& in_cache) {
  std::unique_ptr<PlannedFrames> frames(new PlannedFrames(bounds, devices));
  const std::vector<Phase> phases = DecoderPhases(bounds);
  const ValueSizes prefill_sizes(executable.graph(), phases[0].bounds);
  const ValueSizes decode_sizes(executable.graph(), phases[1].bounds);
  PhasePlanner planner(executable, constants, devices, in_cache);
  LAMINA_RETURN_IF_ERROR(planner.Init());
  for (size_t i = 0; i < devices.size(); ++i) {
    DeviceFrame& frame = frames->frames_[i];
    const auto device = static_cast<int32_t>(i);
    LAMINA_ASSIGN_OR_RETURN(frame.prefill, planner.Plan(device, phases[0].bounds, prefill_sizes));
    LAMINA_ASSIGN_OR_RETURN(frame.decode, planner.Plan(device, phases[1].bounds, decode_sizes));
    frame.size_bytes = std::max(frame.prefill.peak_bytes, frame.decode.peak_bytes);
  }
  for (size_t i = 0; i < devices.size(); ++i) {
    DeviceFrame& frame = frames->frames_[i];
    if (frame.size_bytes == 0) continue;
    Result<void*> memory = devices[i].memory->Reserve(static_cast<uint64_t>(frame.size_bytes));
    if (!memory.ok()) return memory.status().WithContext("execution buffer on " + devices[i].name());
    frame.memory = static_cast<std::byte*>(*memory);
  }
  return frames;
}

PlannedFrames::~PlannedFrames() {
  for (size_t i = 0; i < frames_.size(); ++i) devices_[i].memory->Free(frames_[i].memory);
}

int64_t PlannedFrames::size_bytes() const {
  int64_t total = 0;
  for (const DeviceFrame& frame : frames_) total += frame.size_bytes;
  return total;
}

double PlannedFrames::peak_over_lower_bound() const {
  int64_t peak = 0;
  int64_t bound = 0;
  for (const DeviceFrame& frame : frames_) {
    peak += frame.prefill.peak_bytes + frame.decode.peak_bytes;
    bound += frame.prefill.lower_bound_bytes + frame.decode.lower_bound_bytes;
  }
  return bound == 0 ? 1.0 : static_cast<double>(peak) / static_cast<double>(bound);
}

PlannedFrames::Lease::~Lease() {
  if (frames_) frames_->in_use_.store(false, std::memory_order_release);
}

PlannedFrames::Lease PlannedFrames::Acquire(int64_t batch, int64_t tokens, Frame& frame) {
  const bool is_decode = tokens == 1 && batch <= bounds_.max_batch;
  const bool is_prefill = batch == 1 && tokens <= bounds_.prefill_chunk_tokens;
  if (!(is_decode || is_prefill) || in_use_.exchange(true, std::memory_order_acquire)) return Lease(nullptr);
  for (const DeviceFrame& planned : frames_) {
    frame.planned.push_back({is_decode ? &planned.decode : &planned.prefill, planned.memory});
  }
  return Lease(this);
}

}  // namespace lamina
