#include "provider/graph_node_info.h"

namespace lamina {
namespace {

constexpr uint64_t kMaxPlanningConstantBytes = 64 * 1024;

}  // namespace

GraphNodeInfo::GraphNodeInfo(const Graph& graph, NodeId node, const ConstantValues& constants,
                             const DeviceDescription& device, const SymbolBounds& symbols)
    : graph_(graph), node_(graph.node(node)), constants_(constants), device_(device) {
  const auto bounds_of = [&](ValueId id) -> std::optional<ShapeBounds> {
    if (!id.valid() || !graph_.value(id).shape || graph_.value(id).shape->rank() > Shape::kMaxRank) return {};
    ShapeBounds bounds;
    for (const DimExpr& dim : graph_.value(id).shape->dims) bounds.Append(dim.Bounds(symbols));
    return bounds;
  };
  for (const ValueId id : node_.inputs) input_bounds_.push_back(bounds_of(id));
  for (const ValueId id : node_.outputs) output_bounds_.push_back(bounds_of(id));
}

ValueType GraphNodeInfo::input_type(int index) const {
  if (index < 0 || index >= num_inputs()) return {};
  const ValueId id = node_.inputs[static_cast<size_t>(index)];
  return id.valid() ? graph_.value(id).type : ValueType();
}

ValueType GraphNodeInfo::output_type(int index) const {
  if (index < 0 || index >= num_outputs()) return {};
  const ValueId id = node_.outputs[static_cast<size_t>(index)];
  return id.valid() ? graph_.value(id).type : ValueType();
}

const ShapeBounds* GraphNodeInfo::input_bounds(int index) const {
  if (index < 0 || index >= num_inputs()) return nullptr;
  const auto& bounds = input_bounds_[static_cast<size_t>(index)];
  return bounds ? &*bounds : nullptr;
}

const ShapeBounds* GraphNodeInfo::output_bounds(int index) const {
  if (index < 0 || index >= num_outputs()) return nullptr;
  const auto& bounds = output_bounds_[static_cast<size_t>(index)];
  return bounds ? &*bounds : nullptr;
}

const Tensor* GraphNodeInfo::constant_input(int index) const {
  if (!is_constant_input(index)) return nullptr;
  const Value* constant = constants_.Find(graph_, node_.inputs[static_cast<size_t>(index)]);
  if (!constant->is_tensor()) return nullptr;
  return constant->tensor().size_bytes() <= kMaxPlanningConstantBytes ? &constant->tensor() : nullptr;
}

bool GraphNodeInfo::is_constant_input(int index) const {
  if (index < 0 || index >= num_inputs()) return false;
  const ValueId id = node_.inputs[static_cast<size_t>(index)];
  return id.valid() && constants_.Find(graph_, id) != nullptr;
}

}  // namespace lamina
