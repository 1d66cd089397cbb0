#include "placement/partitioner.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "placement/cut_edges.h"
#include "placement/designator.h"
#include "placement/float_node_info.h"
#include "placement/host_shapes.h"
#include "placement/layering_index.h"
#include "placement/rule_outcomes.h"

namespace lamina {
namespace {

constexpr int32_t kNone = NodePlacement::kNone;

// What a device can know of the nodes of one graph, made as it is asked for.
class NodeInfos {
 public:
  NodeInfos(const Graph& graph, const PartitionRequest& request, const DeviceDescription& device)
      : graph_(graph), request_(request), device_(device), infos_(graph.nodes().size()) {}
  const GraphNodeInfo& Of(NodeId id) {
    std::unique_ptr<GraphNodeInfo>& info = infos_[static_cast<size_t>(id.index)];
    if (!info) {
      info = std::make_unique<GraphNodeInfo>(graph_, id, *request_.constants, device_, request_.bounds);
    }
    return *info;
  }

 private:
  const Graph& graph_;
  const PartitionRequest& request_;
  const DeviceDescription& device_;
  std::vector<std::unique_ptr<GraphNodeInfo>> infos_;
};

// What devices other than the host cannot run: control flow, and values without elements of fixed size.
Status CheckLeavesHost(const Node& graph_node, const NodeInfo& node) {
  if (!graph_node.Subgraphs().empty()) {
    return UnsupportedError("nodes with subgraphs run on the host, with all that is in them");
  }
  const auto check = [](const ValueType& type) -> Status {
    const bool absent = type.kind == ValueKind::kUndefined;
    if (absent || (type.is_tensor() && type.element != DataType::kString)) return Status();
    return UnsupportedError("values of type {} live on the host", type.ToString());
  };
  for (int i = 0; i < node.num_inputs(); ++i) LAMINA_RETURN_IF_ERROR(check(node.input_type(i)));
  for (int i = 0; i < node.num_outputs(); ++i) LAMINA_RETURN_IF_ERROR(check(node.output_type(i)));
  return Status();
}

// Attributes that name an element type: the node computes in that type, not in its inputs'.
bool NamesItsType(const NodeInfo& node) {
  return node.FindAttribute("to") || node.FindAttribute("dtype") || node.FindAttribute("value") ||
         node.FindAttribute("output_dtype");
}

bool HasHalf(const NodeInfo& node) {
  const auto is_half = [](const ValueType& type) { return InFloat(type) != type; };
  for (int i = 0; i < node.num_inputs(); ++i) {
    if (is_half(node.input_type(i))) return true;
  }
  for (int i = 0; i < node.num_outputs(); ++i) {
    if (is_half(node.output_type(i))) return true;
  }
  return false;
}

class Partitioner {
 public:
  explicit Partitioner(const PartitionRequest& request) : request_(request), graph_(*request.graph) {
    const size_t num_nodes = graph_.nodes().size();
    placement_.nodes.resize(num_nodes);
    wanted_.assign(num_nodes, kNone);
    first_wanted_.assign(num_nodes, kNone);
    host_shapes_.assign(num_nodes, false);
  }

  Result<Placement> Run() {
    LAMINA_ASSIGN_OR_RETURN(order_, graph_.TopologicalOrder());
    LAMINA_RETURN_IF_ERROR(ApplyRules());
    for (size_t i = 0; i < std::min(request_.requested.size(), wanted_.size()); ++i) {
      if (wanted_[i] == kNone) wanted_[i] = request_.requested[i];
    }
    first_wanted_ = wanted_;
    for (int32_t device = 0; device <= host(); ++device) LAMINA_RETURN_IF_ERROR(AskDevice(device));
    for (const NodeId id : order_) {
      if (PlacementOf(id).device == kNone) return NobodyTakes(id);
    }
    LAMINA_RETURN_IF_ERROR(RecordFallbacks());
    placement_.cut_edges =
        FindCutEdges(graph_, placement_, request_.devices, request_.cached_values, request_.bounds);
    return std::move(placement_);
  }

 private:
  struct Refusal {
    int32_t device = kNone;
    Status status;
    bool over_budget = false;
  };

  int32_t host() const { return static_cast<int32_t>(request_.devices.size()) - 1; }
  const PlacementDevice& DeviceAt(int32_t device) const {
    return request_.devices[static_cast<size_t>(device)];
  }
  NodePlacement& PlacementOf(NodeId id) { return placement_.nodes[static_cast<size_t>(id.index)]; }
  int32_t& WantedOf(NodeId id) { return wanted_[static_cast<size_t>(id.index)]; }
  IResourceAccountant* AccountantOf(int32_t device) const {
    const auto index = static_cast<size_t>(device);
    return index < request_.accountants.size() ? request_.accountants[index] : nullptr;
  }

  Status ApplyRules() {
    if (!request_.rules) return Status();
    std::vector<DeviceDescription> descriptions;
    for (const PlacementDevice& device : request_.devices) descriptions.push_back(device.description);
    std::vector<bool> usable;
    std::vector<int32_t> device_of_rule;
    for (const LayerRule& rule : request_.rules->rules) {
      const std::optional<size_t> device = FindDevice(rule.device, descriptions);
      if (!device && !request_.allow_unmatched_devices) return UnknownDeviceError(rule.device, descriptions);
      usable.push_back(device.has_value());
      device_of_rule.push_back(device ? static_cast<int32_t>(*device) : kNone);
    }
    const LayeringIndex index(graph_, *request_.rules, usable);
    for (const NodeId id : order_) {
      const std::optional<size_t> rule = index.RuleOf(graph_, id);
      if (!rule) continue;
      PlacementOf(id).rule = static_cast<int32_t>(*rule);
      WantedOf(id) = device_of_rule[*rule];
    }
    placement_.rules = SummarizeRules(graph_, *request_.rules, index, usable);
    return Status();
  }

  Status AskDevice(int32_t device) {
    std::vector<NodeId> visible;
    for (const NodeId id : order_) {
      if (PlacementOf(id).device != kNone) continue;
      if (WantedOf(id) == kNone || WantedOf(id) == device) visible.push_back(id);
    }
    if (visible.empty()) return Status();
    NodeInfos infos(graph_, request_, DeviceAt(device).description);
    LAMINA_ASSIGN_OR_RETURN(std::vector<std::vector<NodeId>> taken, TakenNodes(device, visible, infos));
    if (device != host()) KeepShapesOnHost(taken, infos);
    LAMINA_RETURN_IF_ERROR(PlaceWithinBudget(device, taken, infos));
    for (const NodeId id : visible) {
      if (PlacementOf(id).device == kNone && !host_shapes_[static_cast<size_t>(id.index)])
        WantedOf(id) = kNone;
    }
    return Status();
  }

  // What the provider takes of `visible`, in their order: single nodes, and groups at their first node.
  Result<std::vector<std::vector<NodeId>>> TakenNodes(int32_t device, std::span<const NodeId> visible,
                                                      NodeInfos& infos) {
    const ProviderHostHalf& provider = *DeviceAt(device).provider;
    CapabilityRequest request{&graph_, visible, &DeviceAt(device).description,
                              [&](NodeId id) -> const NodeInfo& { return infos.Of(id); }};
    LAMINA_ASSIGN_OR_RETURN(Capability capability, provider.GetCapability(request));
    for (const auto& [id, status] : capability.refused) Refuse(id, {device, status, false});

    constexpr int32_t kSingle = -2;
    std::unordered_map<int32_t, int32_t> group_of;  // by visible node; kSingle, a group, or kNone
    for (const NodeId id : visible) group_of[id.index] = kNone;
    const auto claim = [&](NodeId id, int32_t group) -> Status {
      const auto found = group_of.find(id.index);
      if (found != group_of.end() && found->second == kNone) {
        found->second = group;
        return Status();
      }
      return InternalError("provider {} takes node {}, which it was not offered or takes twice",
                           provider.name(), id.index);
    };
    for (const NodeId id : capability.nodes) LAMINA_RETURN_IF_ERROR(claim(id, kSingle));
    for (size_t group = 0; group < capability.fused.size(); ++group) {
      for (const NodeId id : capability.fused[group]) {
        LAMINA_RETURN_IF_ERROR(claim(id, static_cast<int32_t>(group)));
      }
    }

    std::vector<std::vector<NodeId>> taken;
    for (const NodeId id : visible) {
      const int32_t group = group_of[id.index];
      if (group == kSingle) {
        const Status status = FindKernel(device, id, infos);
        if (status.ok()) {
          taken.push_back({id});
          continue;
        }
        Refuse(id, {device, status, false});
      } else if (group != kNone) {
        const std::vector<NodeId>& nodes = capability.fused[static_cast<size_t>(group)];
        if (nodes.front() == id) taken.push_back(nodes);
        continue;
      }
      LAMINA_ASSIGN_OR_RETURN(const bool in_float, TakesInFloat(device, id, infos.Of(id)));
      if (in_float) taken.push_back({id});
    }
    return taken;
  }

  // Whether the provider, which does not take the node as it is, computes it in float; notes the kernel.
  Result<bool> TakesInFloat(int32_t device, NodeId id, const NodeInfo& info) {
    if (!HasHalf(info) || NamesItsType(info) || IsCached(id)) return false;
    const PlacementDevice& target = DeviceAt(device);
    if (device != host() && !CheckLeavesHost(graph_.node(id), info).ok()) return false;
    const FloatNodeInfo in_float(info);
    const NodeId nodes[] = {id};
    CapabilityRequest request{&graph_, nodes, &target.description,
                              [&](NodeId) -> const NodeInfo& { return in_float; }};
    LAMINA_ASSIGN_OR_RETURN(const Capability capability, target.provider->GetCapability(request));
    if (capability.nodes.empty()) return false;
    const Result<const KernelCreateInfo*> kernel = target.provider->kernel_registry().Lookup(in_float);
    if (!kernel.ok()) return false;
    PlacementOf(id).kernel = *kernel;
    PlacementOf(id).with_casts = true;
    return true;
  }

  // Whether the node reads or makes what a KV cache can hold: it would be cast as a whole in every run.
  bool IsCached(NodeId id) const {
    const Node& node = graph_.node(id);
    return std::any_of(request_.cached_values.begin(), request_.cached_values.end(), [&](ValueId cached) {
      return std::count(node.inputs.begin(), node.inputs.end(), cached) +
                 std::count(node.outputs.begin(), node.outputs.end(), cached) >
             0;
    });
  }

  // Notes the kernel of a node that the provider takes. An error where it cannot run there after all.
  Status FindKernel(int32_t device, NodeId id, NodeInfos& infos) {
    const NodeInfo& info = infos.Of(id);
    LAMINA_ASSIGN_OR_RETURN(const KernelCreateInfo* kernel,
                            DeviceAt(device).provider->kernel_registry().Lookup(info));
    if (device != host()) LAMINA_RETURN_IF_ERROR(CheckLeavesHost(graph_.node(id), info));
    PlacementOf(id).kernel = kernel;
    return Status();
  }

  // Removes from `taken` what computes shapes and gives it to the CPU.
  void KeepShapesOnHost(std::vector<std::vector<NodeId>>& taken, NodeInfos& infos) {
    std::vector<bool> in_question(graph_.nodes().size(), false);
    for (const std::vector<NodeId>& group : taken) {
      if (group.size() == 1) in_question[static_cast<size_t>(group.front().index)] = true;
    }
    const auto kernel_of = [&](NodeId id) -> const KernelDef* {
      const NodePlacement& node = PlacementOf(id);
      if (!node.kernel || (node.device == kNone && !in_question[static_cast<size_t>(id.index)]))
        return nullptr;
      return &node.kernel->def;
    };
    const auto host_takes = [&](NodeId id) {
      return in_question[static_cast<size_t>(id.index)] &&
             DeviceAt(host()).provider->kernel_registry().Lookup(infos.Of(id)).ok();
    };
    const std::vector<bool> shapes = FindHostShapeNodes(graph_, order_, kernel_of, host_takes);
    std::erase_if(taken, [&](const std::vector<NodeId>& group) {
      const NodeId id = group.front();
      if (group.size() != 1 || !shapes[static_cast<size_t>(id.index)]) return false;
      host_shapes_[static_cast<size_t>(id.index)] = true;
      PlacementOf(id).kernel = nullptr;
      PlacementOf(id).with_casts = false;
      WantedOf(id) = host();
      return true;
    });
  }

  Status PlaceWithinBudget(int32_t device, const std::vector<std::vector<NodeId>>& taken, NodeInfos& infos) {
    IResourceAccountant* accountant = AccountantOf(device);
    uint64_t consumed_bytes = accountant ? accountant->GetConsumedAmount() : 0;
    if (accountant) accountant->ResetForNewPass();
    for (const std::vector<NodeId>& group : taken) {
      std::vector<uint64_t> costs(group.size(), 0);
      if (accountant && !accountant->IsStopIssued()) {
        for (size_t i = 0; i < group.size(); ++i) {
          LAMINA_ASSIGN_OR_RETURN(costs[i], CostOf(group[i], infos, *accountant));
          if (__builtin_add_overflow(consumed_bytes, costs[i], &consumed_bytes)) {
            return InvalidModelError("the cost of the nodes on {} does not fit 64 bits",
                                     DeviceAt(device).description.device.ToString());
          }
        }
        const std::optional<uint64_t> limit_bytes = accountant->GetThreshold();
        if (limit_bytes && consumed_bytes > *limit_bytes) accountant->SetStopAssignment();
      }
      if (accountant && accountant->IsStopIssued()) {
        for (const NodeId id : group) {
          PlacementOf(id).kernel = nullptr;
          PlacementOf(id).with_casts = false;
          Refuse(id, {device,
                      ResourceExhaustedError("the budget of {} is used up",
                                             DeviceAt(device).description.device.ToString()),
                      true});
        }
        continue;
      }
      for (size_t i = 0; i < group.size(); ++i) Place(device, group[i], costs[i]);
      if (group.size() > 1 || !PlacementOf(group.front()).kernel) {
        for (const NodeId id : group) {
          PlacementOf(id).fused_group = static_cast<int32_t>(placement_.fused_groups.size());
        }
        placement_.fused_groups.push_back({device, group});
      }
    }
    return Status();
  }

  Result<uint64_t> CostOf(NodeId id, NodeInfos& infos, IResourceAccountant& accountant) {
    const KernelCreateInfo* kernel = PlacementOf(id).kernel;
    std::optional<uint64_t> estimate_bytes;
    if (kernel && kernel->workspace_estimate_func) {
      size_t bytes = 0;
      const NodeInfo& as_it_is = infos.Of(id);
      const FloatNodeInfo in_float(as_it_is);
      const bool with_casts = PlacementOf(id).with_casts;
      const Status status = kernel->workspace_estimate_func(with_casts ? in_float : as_it_is, &bytes);
      if (status.ok()) {
        estimate_bytes = bytes;
      } else {
        LogWarning("node '{}': its estimate of scratch failed and counts as none: {}",
                   graph_.node(id).name.view(), status.message());
      }
    }
    return ComputeNodeCostForBudget(accountant, graph_, id, estimate_bytes);
  }

  void Place(int32_t device, NodeId id, uint64_t cost_bytes) {
    NodePlacement& node = PlacementOf(id);
    node.device = device;
    node.cost_bytes = cost_bytes;
    const auto index = static_cast<size_t>(id.index);
    if (host_shapes_[index]) {
      node.reason = PlacementReason::kHostShapes;
    } else if (first_wanted_[index] == device) {
      node.reason = node.rule != kNone ? PlacementReason::kRule : PlacementReason::kRequested;
    }
  }

  void Refuse(NodeId id, Refusal refusal) { refusals_[id.index].push_back(std::move(refusal)); }

  // The last refusal is the CPU's.
  Status NobodyTakes(NodeId id) const {
    const auto found = refusals_.find(id.index);
    if (found != refusals_.end()) return found->second.back().status;
    const Node& node = graph_.node(id);
    return UnsupportedError("no provider takes node '{}' ({})", node.name.view(), node.op_type.view());
  }

  // A node is a fallback where another device than its own was wanted first and refused it.
  Status RecordFallbacks() {
    for (const NodeId id : order_) {
      NodePlacement& node = PlacementOf(id);
      const auto found = refusals_.find(id.index);
      if (found == refusals_.end() || node.reason == PlacementReason::kHostShapes) continue;
      const int32_t wanted = first_wanted_[static_cast<size_t>(id.index)];
      const Refusal& first = found->second.front();
      if (node.device == first.device || (wanted != kNone && node.device == wanted)) continue;
      node.reason = first.over_budget ? PlacementReason::kOverBudget : PlacementReason::kFallback;
      placement_.fallbacks.push_back({id, first.device, first.status.message()});
      if (request_.disable_cpu_fallback && node.device == host() && !first.over_budget) {
        return UnsupportedError(
            "node '{}' ({}) would run on the CPU, which session.disable_cpu_ep_fallback excludes: {}: {}",
            graph_.node(id).name.view(), graph_.node(id).op_type.view(),
            DeviceAt(first.device).description.device.ToString(), first.status.message());
      }
    }
    return Status();
  }

  const PartitionRequest& request_;
  const Graph& graph_;
  Placement placement_;
  std::vector<NodeId> order_;
  std::vector<int32_t> wanted_;                       // by node: the device it is reserved for
  std::vector<int32_t> first_wanted_;                 // by node: what the rules and the caller said
  std::vector<bool> host_shapes_;                     // by node
  std::map<int32_t, std::vector<Refusal>> refusals_;  // by node index, in the order of asking
};

}  // namespace

Result<Placement> PartitionGraph(const PartitionRequest& request) { return Partitioner(request).Run(); }

void ChargePlacement(const Graph& graph, const Placement& placement,
                     std::span<IResourceAccountant* const> accountants) {
  for (size_t i = 0; i < placement.nodes.size(); ++i) {
    const NodePlacement& node = placement.nodes[i];
    if (node.device < 0 || static_cast<size_t>(node.device) >= accountants.size()) continue;
    IResourceAccountant* accountant = accountants[static_cast<size_t>(node.device)];
    if (!accountant) continue;
    accountant->AddConsumedAmount(node.cost_bytes);
    accountant->CommitWeightsForNode(graph, NodeId{static_cast<int32_t>(i)});
  }
}

}  // namespace lamina
