#include "placement/fused_groups.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "provider/provider.h"

namespace lamina {
namespace {

// Copies the nodes of a group into a graph of their own.
class BodyBuilder {
 public:
  BodyBuilder(const Graph& graph, const std::vector<NodeId>& nodes)
      : graph_(graph), nodes_(nodes), body_(std::make_unique<Graph>(graph.shared_names(), nullptr)) {}

  // Fills `inputs` and `outputs` with values of the outer graph, in the order of the body's.
  std::unique_ptr<Graph> Build(std::vector<ValueId>* inputs, std::vector<ValueId>* outputs) {
    for (const NodeId id : nodes_) {
      for (const ValueId output : graph_.node(id).outputs) {
        if (output.valid()) inside_[output.index] = MakeValue(output);
      }
    }
    for (const NodeId id : nodes_) AddNode(graph_.node(id));
    for (const ValueId input : inputs_) body_->AddInput(inside_.at(input.index));
    for (const NodeId id : nodes_) {
      for (const ValueId output : graph_.node(id).outputs) {
        if (!output.valid() || !IsReadOutside(output)) continue;
        body_->AddOutput(inside_.at(output.index));
        outputs->push_back(output);
      }
    }
    *inputs = inputs_;
    return std::move(body_);
  }

 private:
  ValueId MakeValue(ValueId id) {
    const ValueInfo& value = graph_.value(id);
    return body_->MakeValue(value.name.view(), value.type, value.shape);
  }

  void AddNode(const Node& node) {
    const auto inside = [&](ValueId id) -> ValueId {
      if (!id.valid()) return {};
      const auto found = inside_.find(id.index);
      if (found != inside_.end()) return found->second;
      inputs_.push_back(id);
      return inside_[id.index] = MakeValue(id);
    };
    std::vector<ValueId> inputs;
    std::vector<ValueId> outputs;
    for (const ValueId input : node.inputs) inputs.push_back(inside(input));
    for (const ValueId output : node.outputs) outputs.push_back(inside(output));
    body_->AddNode(node.name.view(), node.op_type.view(), node.domain.view(), node.since_version,
                   std::move(inputs), std::move(outputs), node.attributes, node.metadata_props);
  }

  bool IsReadOutside(ValueId id) const {
    const ValueInfo& value = graph_.value(id);
    return value.is_graph_output || std::any_of(value.uses.begin(), value.uses.end(), [&](const Use& use) {
             return std::find(nodes_.begin(), nodes_.end(), use.node) == nodes_.end();
           });
  }

  const Graph& graph_;
  const std::vector<NodeId>& nodes_;
  std::unique_ptr<Graph> body_;
  std::unordered_map<int32_t, ValueId> inside_;  // by outer value
  std::vector<ValueId> inputs_;                  // outer values, in the order of first use
};

}  // namespace

Result<FusedNodes> FuseGroups(Graph& graph, Placement& placement, std::span<const PlacementDevice> devices) {
  FusedNodes fused;
  for (const FusedGroup& group : placement.fused_groups) {
    const std::string provider(devices[static_cast<size_t>(group.device)].provider->name());
    FusedNode made;
    std::vector<ValueId> inputs;
    std::vector<ValueId> outputs;
    made.body = BodyBuilder(graph, group.nodes).Build(&inputs, &outputs);
    made.info =
        std::make_unique<KernelCreateInfo>(KernelCreateInfo{KernelDef(kFusedOperator, provider), {}, {}});

    NodePlacement placed = placement.nodes[static_cast<size_t>(group.nodes.front().index)];
    placed.kernel = made.info.get();
    const std::string name = graph.node(group.nodes.back()).name.str() + "/" + std::string(kFusedOperator);
    for (const NodeId id : group.nodes) {
      graph.RemoveNode(id);
      placement.nodes[static_cast<size_t>(id.index)].device = NodePlacement::kNone;
    }
    const NodeId node =
        graph.AddNode(name, kFusedOperator, provider, 1, std::move(inputs), std::move(outputs));
    placement.nodes.resize(graph.nodes().size());
    placement.nodes[static_cast<size_t>(node.index)] = placed;
    fused[node.index] = std::move(made);
    if (!graph.TopologicalOrder().ok()) {
      return InternalError("provider {} fuses nodes around '{}' that a path leaves and comes back to",
                           provider, graph.node(node).name.view());
    }
  }
  return fused;
}

}  // namespace lamina
