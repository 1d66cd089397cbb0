#include "plan/memory_model.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
#include "placement/float_node_info.h"

namespace lamina {
namespace {

// Initializers of the graphs inside a node.
void AddBodyWeights(const Graph& body, NodeId reader, std::vector<WeightPiece>& pieces) {
  for (size_t i = 0; i < body.initializers().size(); ++i) {
    WeightPiece piece;
    piece.initializer = InitializerId{static_cast<int32_t>(i)};
    piece.bytes = body.initializers()[i].size_bytes();
    piece.reader = reader;
    piece.body = &body;
    pieces.push_back(piece);
  }
  for (const Node& node : body.nodes()) {
    if (!node.alive) continue;
    for (const Graph* inner : node.Subgraphs()) AddBodyWeights(*inner, reader, pieces);
  }
}

}  // namespace

uint64_t RoundUpBytes(uint64_t bytes, uint64_t granule_bytes) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  if (granule_bytes <= 1) return bytes;
  const uint64_t rest = bytes % granule_bytes;
  if (rest == 0) return bytes;
  return bytes > kMax - granule_bytes ? kMax : bytes - rest + granule_bytes;
}

MemoryModel::MemoryModel(const MemoryModelRequest& request) : request_(request) {
  can_be_cached_.assign(request_.graph->values().size(), false);
  for (const ValueId id : request_.cached_values) can_be_cached_[static_cast<size_t>(id.index)] = true;
  // Outputs of the graph are fetched after the last step.
  if (request_.copies) live_until_ = request_.copies->live_until;
  live_until_.resize(request_.graph->values().size(), 0);
  for (const ValueId id : request_.graph->outputs()) {
    live_until_[static_cast<size_t>(id.index)] = static_cast<int64_t>(request_.order.size());
  }
  if (!request_.kv || request_.kv->empty() || request_.kv_caches == 0) return;
  const Result<KvCacheSizes> sizes =
      SizesOfKvCache(*request_.kv, request_.max_batch, request_.context_tokens, request_.devices.size());
  if (!sizes.ok()) {
    kv_status_ = sizes.status();
    return;
  }
  for (size_t i = 0; i < request_.kv->in_place.size(); ++i) {
    kv_bytes_.emplace_back(request_.kv->in_place[i].node,
                           sizes->planes[2 * i].size_bytes + sizes->planes[2 * i + 1].size_bytes);
  }
  const auto buffers = 2 * static_cast<size_t>(request_.max_batch);  // of each carried state
  for (size_t i = 0; i < request_.kv->carried.size(); ++i) {
    kv_bytes_.emplace_back(HolderOf(request_.kv->carried[i]),
                           buffers * sizes->carried[buffers * i].size_bytes);
  }
}

// The node that reads the state's past first: the state lies where it runs.
NodeId MemoryModel::HolderOf(const CarriedState& state) const {
  const ValueId past = request_.graph->inputs()[static_cast<size_t>(state.input)];
  for (const Use& use : request_.graph->value(past).uses) {
    if (request_.graph->node(use.node).alive) return use.node;
  }
  return {};
}

Result<const NodeDemand*> MemoryModel::DemandOf(const Placement& placement, NodeId node) const {
  return request_.demands->Of(node, placement.nodes[static_cast<size_t>(node.index)]);
}

Result<std::vector<WeightPiece>> MemoryModel::Weights(const Placement& placement, int32_t device) const {
  const Graph& graph = *request_.graph;
  std::vector<WeightPiece> pieces;
  std::vector<bool> seen(graph.initializers().size(), false);
  std::vector<bool> seen_in_float(graph.initializers().size(), false);
  const auto add_original = [&](InitializerId id, NodeId reader) {
    const Initializer& initializer = graph.initializer(id);
    const DataType type = initializer.type;
    const bool with_casts = placement.nodes[static_cast<size_t>(reader.index)].with_casts;
    const bool in_float = with_casts && InFloat(ValueType::Tensor(type)).element != type;
    std::vector<bool>& seen_as_read = in_float ? seen_in_float : seen;
    if (seen_as_read[static_cast<size_t>(id.index)]) return;
    seen_as_read[static_cast<size_t>(id.index)] = true;
    WeightPiece piece;
    piece.initializer = id;
    piece.bytes = in_float ? initializer.size_bytes() / 2 * sizeof(float) : initializer.size_bytes();
    piece.reader = reader;
    pieces.push_back(piece);
  };
  const auto constant_of = [&](ValueId id) {
    if (!id.valid()) return InitializerId();
    const ValueInfo& value = graph.value(id);
    return value.is_graph_input ? InitializerId() : value.initializer;
  };
  const bool on_host = device == host();
  for (const NodeId id : request_.order) {
    const Node& node = graph.node(id);
    const NodePlacement& at = placement.nodes[static_cast<size_t>(id.index)];
    const auto reads_on_host = [&](size_t input) {
      return at.kernel && at.kernel->def.is_host_input(static_cast<int>(input));
    };
    if (at.device != device) {
      if (!on_host) continue;
      // Inputs that kernels of other devices read on the host.
      for (size_t input = 0; input < node.inputs.size(); ++input) {
        const InitializerId constant = constant_of(node.inputs[input]);
        if (constant.valid() && reads_on_host(input)) add_original(constant, id);
      }
      continue;
    }
    LAMINA_ASSIGN_OR_RETURN(const NodeDemand* demand, DemandOf(placement, id));
    for (const PackedInput& packed : demand->packed) {
      WeightPiece piece;
      piece.initializer = constant_of(node.inputs[static_cast<size_t>(packed.input)]);
      piece.packed_for = id;
      piece.packed_input = packed.input;
      piece.bytes = packed.packed_bytes;
      piece.reader = id;
      pieces.push_back(piece);
    }
    for (size_t input = 0; input < node.inputs.size(); ++input) {
      const InitializerId constant = constant_of(node.inputs[input]);
      if (!constant.valid() || !demand->ReadsOriginal(static_cast<int>(input))) continue;
      if (on_host || !reads_on_host(input)) add_original(constant, id);
    }
    for (const Graph* body : node.Subgraphs()) {
      AddBodyWeights(*body, id, pieces);
      for (const ValueInfo& value : body->values()) {
        if (value.outer.valid() && constant_of(value.outer).valid())
          add_original(constant_of(value.outer), id);
      }
    }
  }
  return pieces;
}

uint64_t MemoryModel::BlockBytes(std::span<const WeightPiece> weights) {
  uint64_t bytes = 0;
  for (const WeightPiece& piece : weights) bytes += RoundUpBytes(piece.bytes, kBlockAlignment);
  return bytes;
}

std::vector<std::pair<NodeId, uint64_t>> MemoryModel::KvOn(const Placement& placement, int32_t device) const {
  std::vector<std::pair<NodeId, uint64_t>> here;
  for (const auto& [node, bytes] : kv_bytes_) {
    const int32_t at = node.valid() ? placement.DeviceOf(node) : host();
    if (at == device) here.emplace_back(node, bytes);
  }
  return here;
}

uint64_t MemoryModel::KvCacheBytes(const Placement& placement, int32_t device) const {
  if (request_.placed && !kv_bytes_.empty()) {
    const Result<KvCacheSizes> sizes =
        SizesOfKvCache(*request_.kv, request_.max_batch, request_.context_tokens, request_.devices.size());
    return sizes.ok() ? sizes->blocks[static_cast<size_t>(device)].size_bytes : 0;
  }
  uint64_t bytes = 0;
  bool in_place = false;
  for (const auto& [node, of_node] : KvOn(placement, device)) bytes += of_node;
  for (const InPlaceKv& layer : request_.kv ? request_.kv->in_place : std::vector<InPlaceKv>()) {
    in_place |= placement.DeviceOf(layer.node) == device;
  }
  // The table of a run's rows (SizesOfKvCache).
  const uint64_t rows_bytes = 2 * static_cast<uint64_t>(request_.max_batch) * sizeof(int32_t);
  const bool has_rows = in_place && bytes > 0 && device != host();
  return bytes + (has_rows ? RoundUpBytes(rows_bytes, kKvAlignment) : 0);
}

Result<uint64_t> MemoryModel::PackingBytes(const Placement& placement, std::span<const NodeId> nodes,
                                           int32_t device) const {
  const Graph& graph = *request_.graph;
  const uint64_t granule = request_.devices[static_cast<size_t>(device)].description.granularity_bytes;
  uint64_t most_bytes = 0;
  for (const NodeId id : nodes) {
    const NodePlacement& at = placement.nodes[static_cast<size_t>(id.index)];
    if (at.device != device) continue;
    LAMINA_ASSIGN_OR_RETURN(const NodeDemand* demand, DemandOf(placement, id));
    const Node& node = graph.node(id);
    for (const PackedInput& packed : demand->packed) {
      uint64_t bytes = RoundUpBytes(packed.scratch_bytes, granule);
      for (size_t input = 0; input < node.inputs.size(); ++input) {
        const bool absorbed = static_cast<int>(input) == packed.input ||
                              (input < 32 && (packed.absorbed_inputs >> input & 1) != 0);
        const bool on_host = at.kernel->def.is_host_input(static_cast<int>(input));
        const ValueId value = node.inputs[input];
        const Initializer* original =
            absorbed && !on_host && value.valid() ? graph.ConstantOf(value) : nullptr;
        if (original) bytes += RoundUpBytes(original->size_bytes(), granule);
      }
      most_bytes = std::max(most_bytes, bytes);
    }
  }
  return most_bytes;
}

uint64_t MemoryModel::PackingInFrame(int32_t device, uint64_t packing_bytes, uint64_t kv_cache_bytes) const {
  const uint64_t caches_bytes = Allocated(device, 0, kv_cache_bytes, 0);
  const uint64_t beyond_bytes = packing_bytes - std::min(packing_bytes, caches_bytes);
  const auto frames = static_cast<uint64_t>(request_.frames);
  return RoundUpBytes((beyond_bytes + frames - 1) / frames, kBlockAlignment);
}

MemoryModel::Located MemoryModel::Locate(const Placement& placement) const {
  Located located{placement, ValueLocations(*request_.graph, placement, request_.devices),
                  std::vector<bool>(request_.graph->values().size(), false)};
  const std::span<const ValueId> values = request_.cached_values;
  if (!request_.placed) {
    for (const ValueId id : located.locations.StayInCache(values)) {
      located.is_cached[static_cast<size_t>(id.index)] = true;
    }
    return located;
  }
  // A past and its present on two devices are kept on the host, from where they are brought and fetched.
  for (size_t i = 0; i + 1 < values.size(); i += 2) {
    const bool together = request_.placed->DeviceOf(values[i]) == request_.placed->DeviceOf(values[i + 1]);
    located.is_cached[static_cast<size_t>(values[i].index)] = together;
    located.is_cached[static_cast<size_t>(values[i + 1].index)] = together;
  }
  return located;
}

FramePlanRequest MemoryModel::FrameRequest(const Located& located, int32_t device, size_t phase) const {
  const Placement& placement = located.placement;
  const ValueLocations& locations = located.locations;
  FramePlanRequest frame;
  frame.graph = request_.graph;
  frame.order = request_.order;
  frame.sizes = &request_.sizes[phase];
  frame.definition = [&placement](NodeId id) -> const KernelDef& {
    static const KernelDef fused("");  // a fused group aliases nothing
    const KernelCreateInfo* kernel = placement.nodes[static_cast<size_t>(id.index)].kernel;
    return kernel ? kernel->def : fused;
  };
  frame.workspace = [this, &placement, phase](NodeId id, WorkspaceRequirements& requirements) -> Status {
    LAMINA_ASSIGN_OR_RETURN(const NodeDemand* demand, DemandOf(placement, id));
    requirements = demand->workspace[phase];
    return Status();
  };
  frame.has_reserve = [this, &placement](NodeId id) {
    const Result<const NodeDemand*> demand = DemandOf(placement, id);
    return demand.ok() && (*demand)->source == EstimateSource::kHeuristic;
  };
  // On the host, inputs and outputs of the graph are in memory of the caller.
  frame.outside = [this, &located, device](ValueId id) {
    const ValueInfo& value = request_.graph->value(id);
    const bool is_callers = value.is_graph_input || value.is_graph_output;
    return located.is_cached[static_cast<size_t>(id.index)] || (is_callers && device == host());
  };
  frame.runs_here = [&placement, device](NodeId id) { return placement.DeviceOf(id) == device; };
  if (const PlacedGraph* placed = request_.placed) {
    frame.is_home = [placed, device](ValueId id) { return placed->DeviceOf(id) == device; };
    frame.is_copy = [this](NodeId id) { return IsCopy(request_.graph->node(id)); };
  } else {
    frame.is_home = [&locations, device](ValueId id) { return locations.Home(id) == device; };
    frame.reads_here = [&locations, device](ValueId, const Use& use) {
      return locations.ReadAt(use) == device;
    };
  }
  frame.live_until = live_until_;
  frame.skip_unbounded = request_.skip_unbounded;
  frame.planner = request_.planner;
  return frame;
}

uint64_t MemoryModel::Allocated(int32_t device, uint64_t weights_bytes, uint64_t kv_cache_bytes,
                                uint64_t execution_bytes) const {
  const uint64_t granule = request_.devices[static_cast<size_t>(device)].description.granularity_bytes;
  return RoundUpBytes(weights_bytes, granule) +
         static_cast<uint64_t>(request_.kv_caches) * RoundUpBytes(kv_cache_bytes, granule) +
         static_cast<uint64_t>(request_.frames) * RoundUpBytes(execution_bytes, granule);
}

Result<uint64_t> MemoryModel::LowerBound(const Placement& placement, int32_t device) const {
  LAMINA_RETURN_IF_ERROR(kv_status_);
  LAMINA_ASSIGN_OR_RETURN(const std::vector<WeightPiece> weights, Weights(placement, device));
  const Located located = Locate(placement);
  uint64_t execution_bytes = 0;
  for (size_t phase = 0; phase < request_.phases.size(); ++phase) {
    LAMINA_ASSIGN_OR_RETURN(const FrameShares shares, FrameLowerBound(FrameRequest(located, device, phase)));
    execution_bytes = std::max(execution_bytes, static_cast<uint64_t>(shares.total_bytes()));
  }
  return Allocated(device, BlockBytes(weights), KvCacheBytes(placement, device), execution_bytes);
}

Result<DeviceNeed> MemoryModel::Need(const Placement& placement, int32_t device) const {
  LAMINA_RETURN_IF_ERROR(kv_status_);
  DeviceNeed need;
  LAMINA_ASSIGN_OR_RETURN(need.weights, Weights(placement, device));
  const bool on_host = device == host();
  for (const WeightPiece& piece : need.weights) {
    if (on_host && !piece.packed_for.valid()) {
      need.mapped_bytes += piece.bytes;
    } else {
      need.weights_bytes += RoundUpBytes(piece.bytes, kBlockAlignment);
    }
  }
  need.kv_bytes_by_node = KvOn(placement, device);
  need.kv_cache_bytes = KvCacheBytes(placement, device);
  const Located located = Locate(placement);
  for (size_t phase = 0; phase < request_.phases.size(); ++phase) {
    LAMINA_ASSIGN_OR_RETURN(FramePlan frame, PlanFrame(FrameRequest(located, device, phase)));
    if (static_cast<uint64_t>(frame.peak_bytes) >= need.execution_bytes) {
      need.execution_bytes = static_cast<uint64_t>(frame.peak_bytes);
      need.shares = frame.shares;
    }
    need.frames.push_back(std::move(frame));
  }
  if (!on_host) {
    LAMINA_ASSIGN_OR_RETURN(const uint64_t packing_bytes, PackingBytes(placement, request_.order, device));
    need.packing_bytes = PackingInFrame(device, packing_bytes, need.kv_cache_bytes);
    need.execution_bytes = std::max(need.execution_bytes, need.packing_bytes);
  }
  need.allocated_bytes = Allocated(device, need.weights_bytes, need.kv_cache_bytes, need.execution_bytes);
  return need;
}

struct FrameFloors::State {
  const MemoryModel& memory;
  MemoryModel::Located located;
  std::vector<FramePlanRequest> requests;  // by phase
  std::vector<FrameFloor> floors;
};

FrameFloors::FrameFloors(const MemoryModel& memory, const Placement& all_here, int32_t device)
    : state_(new State{memory, memory.Locate(all_here), {}, {}}) {
  const size_t num_phases = memory.request().phases.size();
  for (size_t phase = 0; phase < num_phases; ++phase) {
    state_->requests.push_back(memory.FrameRequest(state_->located, device, phase));
  }
  for (const FramePlanRequest& request : state_->requests) state_->floors.emplace_back(request);
}

FrameFloors::~FrameFloors() = default;

Result<uint64_t> FrameFloors::Of(std::span<const NodeId> nodes_in_order) {
  uint64_t largest_bytes = 0;
  for (FrameFloor& floor : state_->floors) {
    LAMINA_ASSIGN_OR_RETURN(const int64_t bytes, floor.Of(nodes_in_order));
    largest_bytes = std::max(largest_bytes, static_cast<uint64_t>(bytes));
  }
  return largest_bytes;
}

}  // namespace lamina
