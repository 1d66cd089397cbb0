// NodeInfo with the dimensions of a phase, for asking many kernels quickly.
#pragma once

#include "plan/value_sizes.h"
#include "provider/graph_node_info.h"

namespace lamina {

// Refers to everything it is made from.
class PlanningNodeInfo : public NodeInfo {
 public:
  PlanningNodeInfo(const Graph& graph, NodeId node, const ConstantValues& constants,
                   const DeviceDescription& device, const ValueSizes& sizes)
      : graph_(graph), node_(graph.node(node)), constants_(constants), device_(device), sizes_(sizes) {}

  std::string_view name() const override { return node_.name; }
  std::string_view op_type() const override { return node_.op_type; }
  std::string_view domain() const override { return node_.domain; }
  int opset_version() const override { return node_.since_version; }
  int num_inputs() const override { return static_cast<int>(node_.inputs.size()); }
  int num_outputs() const override { return static_cast<int>(node_.outputs.size()); }
  ValueType input_type(int index) const override { return TypeOf(Input(index)); }
  ValueType output_type(int index) const override { return TypeOf(Output(index)); }
  const ShapeBounds* input_bounds(int index) const override { return sizes_.ShapeOf(Input(index)); }
  const ShapeBounds* output_bounds(int index) const override { return sizes_.ShapeOf(Output(index)); }
  const Tensor* constant_input(int index) const override;
  bool is_constant_input(int index) const override {
    return Input(index).valid() && constants_.Find(graph_, Input(index)) != nullptr;
  }
  const Attribute* FindAttribute(std::string_view attribute) const override {
    return node_.FindAttribute(attribute);
  }
  const DeviceDescription& device() const override { return device_; }

 private:
  ValueId Input(int index) const {
    return index >= 0 && index < num_inputs() ? node_.inputs[static_cast<size_t>(index)] : ValueId();
  }
  ValueId Output(int index) const {
    return index >= 0 && index < num_outputs() ? node_.outputs[static_cast<size_t>(index)] : ValueId();
  }
  ValueType TypeOf(ValueId id) const { return id.valid() ? graph_.value(id).type : ValueType(); }

  const Graph& graph_;
  const Node& node_;
  const ConstantValues& constants_;
  const DeviceDescription& device_;
  const ValueSizes& sizes_;
};

}  // namespace lamina
