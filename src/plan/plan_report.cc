#include "plan/plan_report.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "provider/provider.h"

namespace lamina {
namespace {

class PlanReport {
 public:
  PlanReport(const PlanReportRequest& request, PlannedGraph& planned)
      : request_(request), planned_(planned), plan_(planned.plan), graph_(*request.graph) {}

  Status Fill() {
    for (size_t device = 0; device < request_.devices.size(); ++device) AddDevice(device);
    AddLayers();
    AddWeights();
    AddPlacement();
    AddOffsets();
    LAMINA_RETURN_IF_ERROR(AddEstimates());
    AddWarnings();
    return Status();
  }

 private:
  bool IsHost(size_t device) const { return device + 1 == request_.devices.size(); }
  std::string NameOf(int32_t device) const {
    return request_.devices[static_cast<size_t>(device)].description.device.ToString();
  }

  // Of a node that was added after layers were found: the layer of what it reads.
  int LayerOf(NodeId id) const {
    while (static_cast<size_t>(id.index) >= request_.layers->of_node.size()) {
      NodeId producer;
      for (const ValueId input : graph_.node(id).inputs) {
        if (input.valid() && !producer.valid()) producer = graph_.value(input).producer;
      }
      if (!producer.valid()) return LayerAssignment::kEmbedding;
      id = producer;
    }
    return request_.layers->OfNode(id);
  }

  void AddDevice(size_t index) {
    const PlacementDevice& device = request_.devices[index];
    const DeviceNeed& need = planned_.needs[index];
    const auto caches = static_cast<uint64_t>(std::max(plan_.kv_caches, 0));
    const auto frames = static_cast<uint64_t>(plan_.frames);
    Plan::DeviceMemory row;
    row.name = device.description.device.ToString();
    row.provider = std::string(device.provider->name());
    row.description = IsHost(index) ? "" : device.description.name;  // the processor's name is no plan
    row.memory_bytes = IsHost(index) ? 0 : device.description.memory_bytes;
    if (!IsHost(index)) {
      row.budget_bytes = request_.budget_bytes[index];
      row.budget_text = request_.budget_texts[index];
    }
    row.weights_bytes = need.weights_bytes + need.mapped_bytes;
    row.kv_cache_bytes = caches * need.kv_cache_bytes;
    row.execution_bytes = frames * need.execution_bytes;
    // What the fullest step does not fill (gaps, scratch of packing) counts with what it comes from.
    const auto step_bytes = static_cast<uint64_t>(need.shares.total_bytes());
    const uint64_t rest_bytes = need.execution_bytes - std::min(step_bytes, need.execution_bytes);
    const bool rest_is_packing = need.packing_bytes > step_bytes;
    row.activations_bytes =
        frames * (static_cast<uint64_t>(need.shares.values_bytes) + (rest_is_packing ? 0 : rest_bytes));
    row.workspace_bytes =
        frames * (static_cast<uint64_t>(need.shares.workspace_bytes) + (rest_is_packing ? rest_bytes : 0));
    row.staging_bytes = frames * static_cast<uint64_t>(need.shares.copies_bytes);
    row.total_bytes = row.weights_bytes + row.kv_cache_bytes + row.execution_bytes;
    for (const Plan::Slot& slot : row.slots) row.total_bytes += slot.bytes;
    row.granularity_bytes = device.description.granularity_bytes;
    row.allocated_bytes = need.allocated_bytes;
    if (IsHost(index)) {
      row.mapped_bytes = need.mapped_bytes;
      row.private_bytes = need.allocated_bytes;
      row.pinned_bytes = PinnedBytes();
    }
    plan_.devices.push_back(std::move(row));
  }

  // Staging buffers of the loaders, which small loads do without.
  uint64_t PinnedBytes() const {
    uint64_t bytes = 0;
    for (size_t device = 0; device + 1 < planned_.needs.size(); ++device) {
      const DeviceLoaderOptions loading =
          request_.loading.empty() ? DeviceLoaderOptions() : request_.loading[device];
      if (planned_.needs[device].weights_bytes >= loading.parallel_bytes) bytes += loading.StagingBytes();
    }
    return bytes;
  }

  // Layers as a person counts them; where one is on several devices the row names all.
  void AddLayers() {
    const LayerAssignment& layers = *request_.layers;
    plan_.layers_from = std::string(LayerSourceName(layers.source));
    struct Tally {
      std::map<int32_t, uint64_t> nodes;  // by device
      std::map<PlacementReason, uint64_t> reasons;
      std::set<int32_t> fallbacks;
      uint64_t bytes = 0;
    };
    std::map<int, Tally> tallies;
    for (const NodeId id : planned_.order) {
      // Casts and copies belong to no layer.
      if (static_cast<size_t>(id.index) >= layers.of_node.size()) continue;
      const NodePlacement& at = planned_.placement.nodes[static_cast<size_t>(id.index)];
      Tally& tally = tallies[LayerOf(id)];
      if (at.reason != PlacementReason::kHostShapes) ++tally.nodes[at.device];
      ++tally.reasons[at.reason];
    }
    for (const DeviceNeed& need : planned_.needs) {
      for (const WeightPiece& piece : need.weights) {
        tallies[LayerOf(piece.reader)].bytes += piece.bytes;
      }
    }
    for (const auto& [layer, bytes] : KvBytesByLayer()) tallies[layer].bytes += bytes;
    for (const auto& [layer, tally] : tallies) {
      Plan::Layer row;
      row.name = std::string(layers.NameOf(layer));
      row.bytes = tally.bytes;
      for (const auto& [device, nodes] : tally.nodes) {
        row.device += (row.device.empty() ? "" : "+") + NameOf(device);
      }
      if (row.device.empty()) row.device = "cpu";
      row.reason = ReasonOf(layer, tally.nodes, tally.reasons);
      plan_.layers.push_back(std::move(row));
    }
  }

  std::map<int, uint64_t> KvBytesByLayer() const {
    std::map<int, uint64_t> bytes;
    for (const DeviceNeed& need : planned_.needs) {
      for (const auto& [node, of_node] : need.kv_bytes_by_node) {
        if (node.valid()) {
          bytes[LayerOf(node)] += static_cast<uint64_t>(plan_.kv_caches) * of_node;
        }
      }
    }
    return bytes;
  }

  std::string ReasonOf(int layer, const std::map<int32_t, uint64_t>& nodes,
                       const std::map<PlacementReason, uint64_t>& reasons) const {
    if (request_.devices.size() == 1) return "the only device";
    if (reasons.count(PlacementReason::kRule) > 0) return "layer rule";
    if (reasons.count(PlacementReason::kOverBudget) > 0) return "the accountant's budget is used up";
    const bool on_host =
        nodes.empty() || nodes.rbegin()->first + 1 == static_cast<int32_t>(request_.devices.size());
    const bool wholly = nodes.size() <= 1;
    if (reasons.count(PlacementReason::kFallback) > 0) {
      return wholly && on_host ? "no other provider runs it" : "fits, but some nodes fall back";
    }
    if (!on_host) return "fits the budget";
    if (!wholly) return "fits the budget in part";
    for (const PlacementUnit& unit : request_.units) {
      if (unit.layer == layer) return "left out: the budget is used up";
    }
    return "first in order";
  }

  void AddWeights() {
    for (size_t device = 0; device < planned_.needs.size(); ++device) {
      for (const WeightPiece& piece : planned_.needs[device].weights) {
        const Graph& owner = piece.body ? *piece.body : graph_;
        Plan::Weight row;
        row.name = owner.initializer(piece.initializer).name.str();
        row.residency = IsHost(device) ? Residency::kHost : Residency::kResident;
        row.device = NameOf(static_cast<int32_t>(device));
        row.bytes = piece.bytes;
        plan_.weights.push_back(std::move(row));
      }
    }
  }

  void AddPlacement() {
    for (const CutEdge& edge : planned_.placement.cut_edges) {
      plan_.cut_edges.push_back({edge.name, NameOf(edge.from), NameOf(edge.to), edge.bytes});
    }
    for (const PlacementFallback& fallback : planned_.placement.fallbacks) {
      const PlacementDevice& wanted = request_.devices[static_cast<size_t>(fallback.wanted)];
      plan_.fallbacks.push_back(
          {graph_.node(fallback.node).name.str(), std::string(wanted.provider->name()), fallback.reason});
    }
    for (const RuleOutcome& rule : planned_.placement.rules) {
      plan_.rules.push_back({rule.text, rule.nodes, rule.note});
    }
  }

  std::string NameOf(const FrameBuffer& buffer) const {
    if (buffer.kind != FrameBuffer::Kind::kWorkspace) {
      return graph_.value(ValueId{buffer.value}).name.str();
    }
    const std::string_view node = graph_.node(NodeId{buffer.node}).name.view();
    if (buffer.slot_id == kReserveSlot) return fmt::format("{} reserve", node);
    return fmt::format("{} slot {}", node, buffer.slot_id);
  }

  void AddOffsets() {
    if (!plan_.planned) return;
    for (size_t device = 0; device < planned_.needs.size(); ++device) {
      for (size_t phase = 0; phase < planned_.phases.size(); ++phase) {
        const FramePlan& frame = planned_.needs[device].frames[phase];
        Plan::PhaseLayout row;
        row.device = NameOf(static_cast<int32_t>(device));
        row.phase = planned_.phases[phase].name;
        row.peak_bytes = static_cast<uint64_t>(frame.peak_bytes);
        row.lower_bound_bytes = static_cast<uint64_t>(frame.lower_bound_bytes);
        for (const FrameBuffer& buffer : frame.buffers) {
          PlanBuffer drawn;
          drawn.name = NameOf(buffer);
          drawn.kind = buffer.kind == FrameBuffer::Kind::kValue  ? PlanBuffer::Kind::kActivation
                       : buffer.kind == FrameBuffer::Kind::kCopy ? PlanBuffer::Kind::kStaging
                                                                 : PlanBuffer::Kind::kWorkspace;
          drawn.offset_bytes = static_cast<uint64_t>(buffer.offset_bytes);
          drawn.size_bytes = static_cast<uint64_t>(buffer.size_bytes);
          drawn.first_step = buffer.lower;
          drawn.last_step = buffer.upper - 1;
          row.buffers.push_back(std::move(drawn));
        }
        plan_.offsets.push_back(std::move(row));
      }
    }
  }

  Status AddEstimates() {
    for (const NodeId id : planned_.order) {
      const NodePlacement& at = planned_.placement.nodes[static_cast<size_t>(id.index)];
      LAMINA_ASSIGN_OR_RETURN(const NodeDemand* demand, request_.demands->Of(id, at));
      const uint64_t bytes = demand->LargestWorkspaceBytes();
      if (bytes == 0 && demand->source != EstimateSource::kHeuristic) continue;
      plan_.estimates.push_back({graph_.node(id).name.str(), demand->source, bytes});
    }
    return Status();
  }

  void AddWarnings() {
    if (!plan_.planned) {
      plan_.warnings.push_back("sizes are estimates, this session takes memory from an arena as it runs: " +
                               plan_.not_planned_because);
    }
    for (const NodeId id : planned_.order) {
      const Node& node = graph_.node(id);
      if (node.Subgraphs().empty() || !plan_.planned) continue;
      plan_.warnings.push_back(
          fmt::format("node '{}' ({}): what its bodies make comes from host memory that is not in the plan",
                      node.name.view(), node.op_type.view()));
    }
    for (const Plan::Rule& rule : plan_.rules) {
      if (!rule.note.empty()) plan_.warnings.push_back("layer rule " + rule.text + ": " + rule.note);
    }
    if (plan_.smallest_useful_budget_bytes) {
      plan_.warnings.push_back(
          fmt::format("the budget is too small for anything; the smallest useful one is {} bytes",
                      *plan_.smallest_useful_budget_bytes));
    }
    for (const Plan::DeviceMemory& device : plan_.devices) {
      if (device.budget_bytes && device.allocated_bytes > *device.budget_bytes) {
        plan_.warnings.push_back(fmt::format("{} exceeds its budget by {} bytes", device.name,
                                             device.allocated_bytes - *device.budget_bytes));
      }
    }
  }

  const PlanReportRequest& request_;
  PlannedGraph& planned_;
  Plan& plan_;
  const Graph& graph_;
};

}  // namespace

Status FillPlan(const PlanReportRequest& request, PlannedGraph& planned) {
  return PlanReport(request, planned).Fill();
}

std::vector<PlacedBuffer> PlacedBuffersOf(const FramePlan& frame) {
  std::vector<PlacedBuffer> placed;
  placed.reserve(frame.buffers.size());
  for (const FrameBuffer& buffer : frame.buffers) {
    PlacedBuffer made;
    made.name = buffer.kind == FrameBuffer::Kind::kWorkspace
                    ? fmt::format("slot {} of node {}", buffer.slot_id, buffer.node)
                    : fmt::format("value {}", buffer.value);
    made.size_bytes = buffer.size_bytes;
    made.alignment = static_cast<int64_t>(kBlockAlignment);
    made.lower = buffer.lower;
    made.upper = buffer.upper;
    made.offset = buffer.offset_bytes;
    made.alias_group = buffer.alias_group;
    placed.push_back(std::move(made));
  }
  return placed;
}

}  // namespace lamina
