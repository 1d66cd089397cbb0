// A node as if it computed in float where the model says float16 or bfloat16.
#pragma once

#include "provider/node_info.h"

namespace lamina {

inline ValueType InFloat(ValueType type) {
  const bool half = type.element == DataType::kFloat16 || type.element == DataType::kBfloat16;
  if (type.is_tensor() && half) type.element = DataType::kFloat;
  return type;
}

// Refers to the node it stands for.
class FloatNodeInfo : public NodeInfo {
 public:
  explicit FloatNodeInfo(const NodeInfo& node) : node_(node) {}

  std::string_view name() const override { return node_.name(); }
  std::string_view op_type() const override { return node_.op_type(); }
  std::string_view domain() const override { return node_.domain(); }
  int opset_version() const override { return node_.opset_version(); }
  int num_inputs() const override { return node_.num_inputs(); }
  int num_outputs() const override { return node_.num_outputs(); }
  ValueType input_type(int index) const override { return InFloat(node_.input_type(index)); }
  ValueType output_type(int index) const override { return InFloat(node_.output_type(index)); }
  const ShapeBounds* input_bounds(int index) const override { return node_.input_bounds(index); }
  const ShapeBounds* output_bounds(int index) const override { return node_.output_bounds(index); }
  // The bytes of a constant that will be cast are not known.
  const Tensor* constant_input(int index) const override {
    return node_.input_type(index) == InFloat(node_.input_type(index)) ? node_.constant_input(index)
                                                                       : nullptr;
  }
  bool is_constant_input(int index) const override { return node_.is_constant_input(index); }
  const Attribute* FindAttribute(std::string_view attribute) const override {
    return node_.FindAttribute(attribute);
  }
  const DeviceDescription& device() const override { return node_.device(); }

 private:
  const NodeInfo& node_;
};

}  // namespace lamina
