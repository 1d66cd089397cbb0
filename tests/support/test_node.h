// A NodeInfo made of values: what a kernel may know of a node whose inputs are all at hand.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "model/attribute.h"
#include "model/name.h"
#include "provider/node_info.h"

namespace lamina::testing {

class TestNode : public NodeInfo {
 public:
  TestNode(std::string_view op_type, int opset_version, std::string_view domain);

  void SetAttribute(std::string_view name, AttributeValue value);
  // An undefined value is an absent optional input or output. Bounds are the exact shapes.
  void AddInput(const Value& value, bool constant);
  void AddOutput(const ValueType& type, const Tensor* expected);

  std::string_view name() const override { return name_; }
  std::string_view op_type() const override { return op_type_; }
  std::string_view domain() const override { return domain_; }
  int opset_version() const override { return opset_version_; }
  int num_inputs() const override { return static_cast<int>(inputs_.size()); }
  int num_outputs() const override { return static_cast<int>(outputs_.size()); }
  ValueType input_type(int index) const override;
  ValueType output_type(int index) const override;
  const ShapeBounds* input_bounds(int index) const override;
  const ShapeBounds* output_bounds(int index) const override;
  const Tensor* constant_input(int index) const override;
  bool is_constant_input(int index) const override;
  const Attribute* FindAttribute(std::string_view attribute) const override;
  const DeviceDescription& device() const override { return device_; }

  // The device that the node is on; by default nothing is known of it.
  void set_device(const DeviceDescription& device) { device_ = device; }
  // The constant whatever its size; null where the input is none.
  const Tensor* Constant(int index) const;

 private:
  struct Edge {
    ValueType type;
    std::optional<ShapeBounds> bounds;
    bool constant = false;
    Tensor value;  // where it is constant
  };
  const Edge* Find(const std::vector<Edge>& edges, int index) const;

  std::string name_;
  std::string op_type_;
  std::string domain_;
  int opset_version_;
  NamePool names_;
  std::vector<Edge> inputs_;
  std::vector<Edge> outputs_;
  std::deque<Attribute> attributes_;
  DeviceDescription device_;
};

}  // namespace lamina::testing
