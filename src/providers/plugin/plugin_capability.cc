#include "providers/plugin/plugin_capability.h"

#include <deque>
#include <set>

#include "base/error.h"
#include "provider/graph_node_info.h"
#include "providers/plugin/host_graph.h"
#include "providers/plugin/host_status.h"

namespace lamina::plugin {
namespace {

// OK where the node can be told to a plugin: tensors without strings, no graphs.
Status CrossesInterface(const NodeInfo& info, const Node& node) {
  const auto check = [&](const ValueType& type, const char* what, int index) -> Status {
    if (type.kind == ValueKind::kUndefined || (type.is_tensor() && type.element != DataType::kString)) {
      return Status();
    }
    return UnsupportedError("node '{}': {} {} is {}, plugins take tensors of numbers", info.name(), what,
                            index, type.ToString());
  };
  for (int i = 0; i < info.num_inputs(); ++i) {
    LAMINA_RETURN_IF_ERROR(check(info.input_type(i), "input", i));
  }
  for (int i = 0; i < info.num_outputs(); ++i) {
    LAMINA_RETURN_IF_ERROR(check(info.output_type(i), "output", i));
  }
  if (node.Subgraphs().empty()) return Status();
  return UnsupportedError("node '{}': it has graphs, which run on the host", info.name());
}

// Every node that the registry has a kernel for.
void TakeWhatTheRegistryHas(const LaminaGraph& graph, LaminaEpGraphSupportInfo& answer) {
  for (const LaminaNode* node : graph.node_list) {
    const Result<const KernelCreateInfo*> kernel = answer.kernels.Lookup(node->info);
    if (kernel.ok()) {
      answer.capability.nodes.push_back(node->id);
    } else {
      answer.capability.refused.emplace_back(node->id, kernel.status());
    }
  }
}

// Each node once.
Status CheckAnswer(const Graph& graph, const Capability& capability) {
  std::set<int32_t> taken;
  const auto add = [&](NodeId id) -> Status {
    if (taken.insert(id.index).second) return Status();
    return InternalError("it takes node '{}' twice", graph.node(id).name.view());
  };
  for (const NodeId id : capability.nodes) LAMINA_RETURN_IF_ERROR(add(id));
  for (const std::vector<NodeId>& group : capability.fused) {
    for (const NodeId id : group) LAMINA_RETURN_IF_ERROR(add(id));
  }
  return Status();
}

// Reasons for nodes that the plugin left without one; none for nodes that it took after all.
void CompleteReasons(const LaminaGraph& graph, const KernelRegistry& kernels, std::string_view provider,
                     Capability& capability) {
  std::set<int32_t> taken;
  for (const NodeId id : capability.nodes) taken.insert(id.index);
  for (const std::vector<NodeId>& group : capability.fused) {
    for (const NodeId id : group) taken.insert(id.index);
  }
  std::erase_if(capability.refused,
                [&](const auto& refusal) { return taken.count(refusal.first.index) > 0; });
  std::set<int32_t> explained;
  for (const auto& [id, reason] : capability.refused) explained.insert(id.index);
  for (const LaminaNode* node : graph.node_list) {
    if (taken.count(node->id.index) > 0 || explained.count(node->id.index) > 0) continue;
    const Result<const KernelCreateInfo*> kernel = kernels.Lookup(node->info);
    capability.refused.emplace_back(
        node->id, kernel.ok()
                      ? UnsupportedError("node '{}': provider {} does not take it", node->name, provider)
                      : kernel.status());
  }
}

// The constants of a fused body whose bytes are at hand.
class BodyConstants : public ConstantValues {
 public:
  const Value* Find(const Graph& graph, ValueId id) const override {
    const Initializer* initializer = graph.ConstantOf(id);
    if (!initializer) return nullptr;
    std::optional<Tensor> tensor = initializer->InMemory();
    return &values_.emplace_back(tensor ? Value(*std::move(tensor)) : Value());
  }

 private:
  mutable std::deque<Value> values_;
};

}  // namespace

Result<Capability> AskCapability(const CapabilityRequest& request, LaminaEp& ep,
                                 const KernelRegistry& kernels, const DeviceMap& devices,
                                 std::string_view provider) {
  const std::string context = fmt::format("provider {}", provider);
  LaminaGraph graph(*request.graph);
  LaminaEpGraphSupportInfo answer(graph, kernels);
  std::vector<std::pair<NodeId, Status>> kept;
  for (const NodeId id : request.nodes) {
    const NodeInfo& info = request.info(id);
    const Status crosses = CrossesInterface(info, request.graph->node(id));
    if (crosses.ok()) {
      graph.Add(info, devices, id);
    } else {
      kept.emplace_back(id, crosses);
    }
  }
  if (ep.GetCapability) {
    LAMINA_RETURN_IF_ERROR(TakeStatus(ep.GetCapability(&ep, &graph, &answer)).WithContext(context));
  } else {
    TakeWhatTheRegistryHas(graph, answer);
  }
  LAMINA_RETURN_IF_ERROR(CheckAnswer(*request.graph, answer.capability).WithContext(context));
  if (!answer.capability.fused.empty() && !ep.Compile) {
    return InternalError("{}: it fuses nodes and has no Compile", context);
  }
  CompleteReasons(graph, kernels, provider, answer.capability);
  for (auto& refusal : kept) answer.capability.refused.push_back(std::move(refusal));
  return std::move(answer.capability);
}

Result<LaminaNodeComputeInfo*> CompileBody(const NodeInfo& node, const Graph& body, LaminaEp& ep,
                                           const DeviceMap& devices) {
  LAMINA_ASSIGN_OR_RETURN(const std::vector<NodeId> order, body.TopologicalOrder());
  const BodyConstants constants;
  std::deque<GraphNodeInfo> infos;
  LaminaGraph graph(body);
  for (const NodeId id : order) {
    infos.emplace_back(body, id, constants, node.device(), SymbolBounds());
    graph.Add(infos.back(), devices, id);
  }
  const LaminaNode fused(node, devices);
  const LaminaGraph* graphs[] = {&graph};
  const LaminaNode* nodes[] = {&fused};
  LaminaNodeComputeInfo* info = nullptr;
  LAMINA_RETURN_IF_ERROR(
      TakeStatus(ep.Compile(&ep, graphs, nodes, 1, &info)).WithContext(node.device().device.ToString()));
  return info;
}

}  // namespace lamina::plugin
