#include "support/test_node.h"

namespace lamina::testing {
namespace {

constexpr uint64_t kLargestConstantRead = 64 * 1024;

}  // namespace

TestNode::TestNode(std::string_view op_type, int opset_version, std::string_view domain)
    : name_(std::string(op_type) + "_under_test"),
      op_type_(op_type),
      domain_(domain),
      opset_version_(opset_version) {
  device_.provider = "cpu";
  device_.name = "CPU";
}

void TestNode::SetAttribute(std::string_view name, AttributeValue value) {
  attributes_.push_back({names_.Intern(name), std::move(value), Name()});
}

void TestNode::AddInput(const Value& value, bool constant) {
  Edge edge;
  edge.type = value.type();
  edge.constant = constant;
  if (value.is_tensor()) {
    edge.bounds = ShapeBounds(value.tensor().shape());
    if (constant) edge.value = value.tensor();
  }
  inputs_.push_back(std::move(edge));
}

void TestNode::AddOutput(const ValueType& type, const Tensor* expected) {
  Edge edge;
  edge.type = type;
  if (expected) edge.bounds = ShapeBounds(expected->shape());
  outputs_.push_back(std::move(edge));
}

const TestNode::Edge* TestNode::Find(const std::vector<Edge>& edges, int index) const {
  return index >= 0 && index < static_cast<int>(edges.size()) ? &edges[static_cast<size_t>(index)] : nullptr;
}

ValueType TestNode::input_type(int index) const {
  const Edge* edge = Find(inputs_, index);
  return edge ? edge->type : ValueType();
}

ValueType TestNode::output_type(int index) const {
  const Edge* edge = Find(outputs_, index);
  return edge ? edge->type : ValueType();
}

const ShapeBounds* TestNode::input_bounds(int index) const {
  const Edge* edge = Find(inputs_, index);
  return edge && edge->bounds ? &*edge->bounds : nullptr;
}

const ShapeBounds* TestNode::output_bounds(int index) const {
  const Edge* edge = Find(outputs_, index);
  return edge && edge->bounds ? &*edge->bounds : nullptr;
}

const Tensor* TestNode::Constant(int index) const {
  const Edge* edge = Find(inputs_, index);
  return edge && edge->constant ? &edge->value : nullptr;
}

const Tensor* TestNode::constant_input(int index) const {
  const Tensor* constant = Constant(index);
  return constant && constant->size_bytes() <= kLargestConstantRead ? constant : nullptr;
}

bool TestNode::is_constant_input(int index) const { return Constant(index) != nullptr; }

const Attribute* TestNode::FindAttribute(std::string_view attribute) const {
  for (const Attribute& candidate : attributes_) {
    if (candidate.name.view() == attribute) return &candidate;
  }
  return nullptr;
}

}  // namespace lamina::testing
