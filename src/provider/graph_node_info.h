// NodeInfo of a node in a graph.
#pragma once

#include <optional>
#include <vector>

#include "model/graph.h"
#include "provider/node_info.h"

namespace lamina {

// The constants of a model, as far as their bytes are known.
class ConstantValues {
 public:
  virtual ~ConstantValues() = default;
  // Null where the value (of `graph`, or captured from a graph around it) is no constant; an undefined value
  // where it is one whose bytes are not known.
  virtual const Value* Find(const Graph& graph, ValueId id) const = 0;
};

// Cheap to make; refers to the graph, the constants and the device, which must outlive it.
class GraphNodeInfo : public NodeInfo {
 public:
  // `symbols`: bounds of the dimensions that the session admits.
  GraphNodeInfo(const Graph& graph, NodeId node, const ConstantValues& constants,
                const DeviceDescription& device, const SymbolBounds& symbols);

  std::string_view name() const override { return node_.name; }
  std::string_view op_type() const override { return node_.op_type; }
  std::string_view domain() const override { return node_.domain; }
  int opset_version() const override { return node_.since_version; }
  int num_inputs() const override { return static_cast<int>(node_.inputs.size()); }
  int num_outputs() const override { return static_cast<int>(node_.outputs.size()); }
  ValueType input_type(int index) const override;
  ValueType output_type(int index) const override;
  const ShapeBounds* input_bounds(int index) const override;
  const ShapeBounds* output_bounds(int index) const override;
  const Tensor* constant_input(int index) const override;
  bool is_constant_input(int index) const override;
  const Attribute* FindAttribute(std::string_view attribute) const override {
    return node_.FindAttribute(attribute);
  }
  const DeviceDescription& device() const override { return device_; }

 private:
  const Graph& graph_;
  const Node& node_;
  const ConstantValues& constants_;
  const DeviceDescription& device_;
  std::vector<std::optional<ShapeBounds>> input_bounds_;
  std::vector<std::optional<ShapeBounds>> output_bounds_;
};

}  // namespace lamina
