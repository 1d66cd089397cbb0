#include "placement/apply_placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_map>

#include "base/error.h"
#include "placement/cut_edges.h"
#include "placement/float_node_info.h"
#include "provider/provider.h"

namespace lamina {
namespace {

constexpr int kCastVersion = 13;

class CastInserter {
 public:
  CastInserter(Graph& graph, DerivedTensors& derived, Placement& placement,
               std::span<const PlacementDevice> devices, const ConstantValues& constants)
      : graph_(graph), derived_(derived), placement_(placement), devices_(devices), constants_(constants) {}

  Status Insert() {
    const std::vector<NodePlacement>& nodes = placement_.nodes;
    if (std::none_of(nodes.begin(), nodes.end(), [](const NodePlacement& node) { return node.with_casts; })) {
      return Status();
    }
    LAMINA_ASSIGN_OR_RETURN(const std::vector<NodeId> order, graph_.TopologicalOrder());
    for (const NodeId id : order) {
      if (nodes[static_cast<size_t>(id.index)].with_casts) LAMINA_RETURN_IF_ERROR(WrapNode(id));
    }
    RemoveUnreadCasts();
    return Status();
  }

 private:
  Status WrapNode(NodeId id) {
    const std::vector<ValueId> inputs = graph_.node(id).inputs;
    const std::vector<ValueId> outputs = graph_.node(id).outputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].valid()) continue;
      const ValueType type = graph_.value(inputs[i]).type;
      if (InFloat(type) == type) continue;
      LAMINA_ASSIGN_OR_RETURN(const ValueId in_float, FloatOf(inputs[i], id));
      graph_.SetInput(id, static_cast<int>(i), in_float);
    }
    for (const ValueId output : outputs) {
      if (!output.valid()) continue;
      const ValueType type = graph_.value(output).type;
      if (InFloat(type) == type) continue;
      const ValueId cast = MakeValue(output, type, "/Cast");
      graph_.mutable_value(output).type = InFloat(type);
      // The cast takes over every reader, then reads the output itself.
      const NodeId node = AddCastNode(id, {}, cast);
      graph_.ReplaceUses(output, cast);
      graph_.SetInput(node, 0, output);
      LAMINA_RETURN_IF_ERROR(PlaceCast(id, node));
      float_of_[cast] = output;
    }
    return Status();
  }

  // Between two nodes that both compute in float the value stays as it is.
  void RemoveUnreadCasts() {
    for (const auto& [cast, in_float] : float_of_) {
      const ValueInfo& value = graph_.value(cast);
      if (!value.uses.empty() || value.is_graph_output) continue;
      const NodeId node = value.producer;
      graph_.RemoveNode(node);
      placement_.nodes[static_cast<size_t>(node.index)] = {};
    }
  }

  // The value in float where `reader` runs: a constant is cast when the model is loaded, anything else by one
  // node on each device.
  Result<ValueId> FloatOf(ValueId id, NodeId reader) {
    const auto made_in_float = float_of_.find(id);
    if (made_in_float != float_of_.end()) return made_in_float->second;
    const Initializer* constant = graph_.ConstantOf(id);
    const int32_t device =
        constant ? NodePlacement::kNone : placement_.nodes[static_cast<size_t>(reader.index)].device;
    const auto known = in_float_.find({id, device});
    if (known != in_float_.end()) return known->second;
    const ValueId cast = MakeValue(id, InFloat(graph_.value(id).type), "/InFloat");
    if (constant) {
      LAMINA_ASSIGN_OR_RETURN(DerivedTensorPtr expression,
                              DeriveCast(derived_.ExpressionOf(*constant), graph_.value(cast).type.element));
      const std::string name = graph_.value(cast).name.str();
      graph_.AddInitializer(cast, derived_.Add(name, std::move(expression)));
    } else {
      LAMINA_RETURN_IF_ERROR(PlaceCast(reader, AddCastNode(reader, id, cast)));
    }
    in_float_[{id, device}] = cast;
    return cast;
  }

  ValueId MakeValue(ValueId like, ValueType type, const char* suffix) {
    const std::string name = graph_.value(like).name.str() + suffix;
    const std::optional<SymbolicShape> shape = graph_.value(like).shape;
    return graph_.MakeValue(graph_.GenerateValueName(name).view(), type, shape);
  }

  NodeId AddCastNode(NodeId around, ValueId input, ValueId output) {
    const auto to = static_cast<int64_t>(graph_.value(output).type.element);
    std::vector<Attribute> attributes{Attribute{graph_.names().Intern("to"), to, Name()}};
    const std::string name = graph_.node(around).name.str() + "/Cast";
    return graph_.AddNode(name, "Cast", "", kCastVersion, {input}, {output}, std::move(attributes));
  }

  // Where the node runs that it is for; on the host where that device cannot read or write the type either.
  Status PlaceCast(NodeId around, NodeId cast) {
    NodePlacement placed = placement_.nodes[static_cast<size_t>(around.index)];
    placed.with_casts = false;
    Result<const KernelCreateInfo*> kernel = CastKernel(placed.device, cast);
    if (!kernel.ok()) {
      placed.device = static_cast<int32_t>(devices_.size()) - 1;
      kernel = CastKernel(placed.device, cast);
    }
    LAMINA_ASSIGN_OR_RETURN(placed.kernel, std::move(kernel));
    placement_.nodes.resize(graph_.nodes().size());
    placement_.nodes[static_cast<size_t>(cast.index)] = placed;
    return Status();
  }

  Result<const KernelCreateInfo*> CastKernel(int32_t device, NodeId cast) const {
    const PlacementDevice& target = devices_[static_cast<size_t>(device)];
    const GraphNodeInfo info(graph_, cast, constants_, target.description, {});
    return target.provider->kernel_registry().Lookup(info);
  }

  Graph& graph_;
  DerivedTensors& derived_;
  Placement& placement_;
  std::span<const PlacementDevice> devices_;
  const ConstantValues& constants_;
  std::map<std::pair<ValueId, int32_t>, ValueId> in_float_;  // by value and device; kNone for constants
  std::map<ValueId, ValueId> float_of_;                      // by cast output: the output itself
};

class CopyInserter {
 public:
  CopyInserter(Graph& graph, const Placement& placement, std::span<const PlacementDevice> devices,
               std::span<const ValueId> cached_values)
      : graph_(graph),
        devices_(devices),
        locations_(graph, placement, devices),
        cached_(locations_.StayInCache(cached_values)) {
    for (const NodePlacement& node : placement.nodes) {
      placed_.node_device.push_back(node.device);
      placed_.kernels.push_back(node.kernel);
    }
  }

  PlacedGraph Insert() {
    const size_t num_values = graph_.values().size();
    std::vector<std::vector<CopyRoute>> routes(num_values);
    for (size_t i = 0; i < num_values; ++i) {
      const ValueId id{static_cast<int32_t>(i)};
      placed_.value_device.push_back(locations_.Home(id));
      routes[i] = locations_.Routes(id, /*fetched=*/cached_.count(id) == 0);
    }
    for (size_t i = 0; i < num_values; ++i) {
      if (!routes[i].empty()) CopyValue(ValueId{static_cast<int32_t>(i)}, routes[i]);
    }
    return std::move(placed_);
  }

 private:
  void CopyValue(ValueId id, const std::vector<CopyRoute>& routes) {
    const ValueInfo& value = graph_.value(id);
    const int32_t host = locations_.host();
    const bool has_one_place = routes.size() == 1 && !locations_.IsReadAt(id, host);
    if (has_one_place && value.is_graph_input && !value.is_graph_output) {
      placed_.value_device[static_cast<size_t>(id.index)] = routes.front().to;  // brought by the caller
      return;
    }
    const bool is_fetched = value.is_graph_output && cached_.count(id) == 0;
    if (has_one_place && is_fetched && routes.front().to == host) return;
    const std::vector<Use> uses = value.uses;
    std::map<int32_t, ValueId> copies;  // by device
    for (const CopyRoute& route : routes) {
      const auto source = copies.find(route.from);
      copies[route.to] = AddCopy(source == copies.end() ? id : source->second, route.to);
    }
    const bool output_moves = is_fetched && copies.count(host) > 0;
    if (output_moves) MoveOutput(id, copies.at(host), routes, copies);
    for (const Use& use : uses) {
      const auto copy = copies.find(locations_.ReadAt(use));
      if (use.input_index != Use::kCapture) {
        graph_.SetInput(use.node, use.input_index, copy == copies.end() ? id : copy->second);
      } else if (copy != copies.end() && !output_moves) {
        Recapture(use.node, id, copy->second);
      }
    }
  }

  // The copy on the host becomes the graph's output, and what bodies capture. The copies keep reading `id`.
  void MoveOutput(ValueId id, ValueId host_copy, const std::vector<CopyRoute>& routes,
                  const std::map<int32_t, ValueId>& copies) {
    graph_.ReplaceUses(id, host_copy);
    for (const CopyRoute& route : routes) {
      if (route.from == locations_.host()) continue;
      graph_.SetInput(copy_nodes_.at(copies.at(route.to).index), 0, id);
    }
  }

  ValueId AddCopy(ValueId source, int32_t to) {
    const std::string device = devices_[static_cast<size_t>(to)].description.device.ToString();
    const std::string name = fmt::format("{}/Copy to {}", graph_.value(source).name.view(), device);
    const ValueType type = graph_.value(source).type;
    const std::optional<SymbolicShape> shape = graph_.value(source).shape;
    const ValueId copy = graph_.MakeValue(graph_.GenerateValueName(name).view(), type, shape);
    const NodeId node = graph_.AddNode(name, kCopyOperator, kCopyDomain, 1, {source}, {copy});
    placed_.node_device.resize(graph_.nodes().size(), NodePlacement::kNone);
    placed_.kernels.resize(graph_.nodes().size(), nullptr);
    placed_.node_device[static_cast<size_t>(node.index)] = to;
    placed_.value_device.resize(graph_.values().size(), to);
    copy_nodes_[copy.index] = node;
    return copy;
  }

  // The bodies of `node` capture `to` instead of `from`.
  void Recapture(NodeId node, ValueId from, ValueId to) {
    for (Graph* body : graph_.node(node).Subgraphs()) {
      for (size_t i = 0; i < body->values().size(); ++i) {
        const ValueId captured{static_cast<int32_t>(i)};
        if (body->value(captured).outer != from) continue;
        body->ReplaceUses(captured, body->CaptureOuter(to));
        break;
      }
    }
  }

  Graph& graph_;
  std::span<const PlacementDevice> devices_;
  ValueLocations locations_;
  std::set<ValueId> cached_;
  PlacedGraph placed_;
  std::unordered_map<int32_t, NodeId> copy_nodes_;  // by index of the value they make
};

}  // namespace

bool IsCopy(const Node& node) { return node.op_type == kCopyOperator && node.domain == kCopyDomain; }

Result<PlacedGraph> ApplyPlacement(Graph& graph, DerivedTensors& derived, const Placement& placement,
                                   std::span<const PlacementDevice> devices, const ConstantValues& constants,
                                   std::span<const ValueId> cached_values) {
  Placement extended = placement;
  LAMINA_ASSIGN_OR_RETURN(FusedNodes fused, FuseGroups(graph, extended, devices));
  LAMINA_RETURN_IF_ERROR(CastInserter(graph, derived, extended, devices, constants).Insert());
  PlacedGraph placed = CopyInserter(graph, extended, devices, cached_values).Insert();
  placed.fused = std::move(fused);
  return placed;
}

Result<std::vector<NodeId>> ExecutionOrder(const Graph& graph) {
  LAMINA_ASSIGN_OR_RETURN(const std::vector<NodeId> sorted, graph.TopologicalOrder());
  std::vector<NodeId> order;
  order.reserve(sorted.size());
  std::vector<NodeId> first;                                   // copies of what no node makes
  std::unordered_map<int32_t, std::vector<NodeId>> copies_of;  // by producer
  for (const NodeId id : sorted) {
    if (!IsCopy(graph.node(id))) continue;
    const NodeId producer = graph.value(graph.node(id).inputs[0]).producer;
    if (producer.valid()) {
      copies_of[producer.index].push_back(id);
    } else {
      first.push_back(id);
    }
  }
  const auto add = [&](auto&& self, NodeId id) -> void {
    order.push_back(id);
    const auto copies = copies_of.find(id.index);
    if (copies == copies_of.end()) return;
    for (const NodeId copy : copies->second) self(self, copy);
  };
  for (const NodeId id : first) add(add, id);
  for (const NodeId id : sorted) {
    if (!IsCopy(graph.node(id))) add(add, id);
  }
  return order;
}

}  // namespace lamina
