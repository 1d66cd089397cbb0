#include "placement/host_shapes.h"

#include <algorithm>

#include "provider/type_set.h"

namespace lamina {
namespace {

constexpr int64_t kMaxShapeElements = 1024;
constexpr TypeSet kShapeTypes = kIntTypes | DataType::kBool;

class HostShapeFinder {
 public:
  HostShapeFinder(const Graph& graph, const std::function<const KernelDef*(NodeId)>& kernel_of)
      : graph_(graph), kernel_of_(kernel_of), found_(graph.nodes().size(), false) {}

  std::vector<bool> Find(std::span<const NodeId> order, const std::function<bool(NodeId)>& host_takes) {
    for (const NodeId id : order) {
      if (kernel_of_(id) && ComputesShapes(graph_.node(id)) && host_takes(id)) Set(id, true);
    }
    // What only device kernels read would have to cross: those nodes stay with their readers.
    for (auto id = order.rbegin(); id != order.rend(); ++id) {
      if (Contains(*id) && !IsReadOnHost(graph_.node(*id))) Set(*id, false);
    }
    return std::move(found_);
  }

 private:
  bool Contains(NodeId id) const { return found_[static_cast<size_t>(id.index)]; }
  void Set(NodeId id, bool value) { found_[static_cast<size_t>(id.index)] = value; }

  static bool IsSmall(const ValueInfo& value) {
    if (!value.type.is_tensor() || !kShapeTypes.Contains(value.type.element) || !value.shape) return false;
    int64_t elements = 1;
    for (const DimExpr& dim : value.shape->dims) {
      const std::optional<int64_t> size = dim.constant();
      if (!size || *size > kMaxShapeElements) return false;
      elements *= *size;
      if (elements > kMaxShapeElements) return false;
    }
    return true;
  }

  bool IsOnHost(const ValueInfo& value) const {
    if (!value.producer.valid()) return false;
    if (Contains(value.producer)) return true;
    const KernelDef* kernel = kernel_of_(value.producer);
    return kernel && kernel->is_host_output(value.output_index);
  }

  // Every input is a small constant or on the host, one at least the latter; every output is small.
  bool ComputesShapes(const Node& node) const {
    if (!node.Subgraphs().empty()) return false;
    bool from_shapes = false;
    for (const ValueId input : node.inputs) {
      if (!input.valid()) continue;
      const bool on_host = IsOnHost(graph_.value(input));
      if (!on_host && !(graph_.ConstantOf(input) && IsSmall(graph_.value(input)))) return false;
      from_shapes |= on_host;
    }
    return from_shapes && std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId output) {
             return !output.valid() || IsSmall(graph_.value(output));
           });
  }

  bool IsReadOnHost(const Node& node) const {
    for (const ValueId output : node.outputs) {
      if (!output.valid()) continue;
      const ValueInfo& value = graph_.value(output);
      if (value.is_graph_output) return true;
      for (const Use& use : value.uses) {
        if (Contains(use.node)) return true;
        const KernelDef* kernel = kernel_of_(use.node);
        if (kernel && use.input_index != Use::kCapture && kernel->is_host_input(use.input_index)) return true;
      }
    }
    return false;
  }

  const Graph& graph_;
  const std::function<const KernelDef*(NodeId)>& kernel_of_;
  std::vector<bool> found_;
};

}  // namespace

std::vector<bool> FindHostShapeNodes(const Graph& graph, std::span<const NodeId> order,
                                     const std::function<const KernelDef*(NodeId)>& kernel_of,
                                     const std::function<bool(NodeId)>& host_takes) {
  return HostShapeFinder(graph, kernel_of).Find(order, host_takes);
}

}  // namespace lamina
