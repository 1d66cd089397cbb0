// A model built node by node, for tests of shape inference.
//
//   ShapeTestGraph g;
//   const ValueId x = g.Input("x", DataType::kFloat, {DimExpr::Symbol("n"), 4});
//   const ValueId y = g.Node("Relu", {x});
//   EXPECT_EQ(g.InferredShape(y), "[n,4]");
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "model/model.h"
#include "model/shape_inference/shape_inference.h"

namespace lamina::testing {

using NamedAttribute = std::pair<std::string, AttributeValue>;

class ShapeTestGraph {
 public:
  static constexpr int kOpset = 24;

  explicit ShapeTestGraph(int opset = kOpset) : opset_(opset) {
    model_.ir_version = 10;
    model_.names = std::make_shared<NamePool>();
    model_.graph = std::make_unique<Graph>(model_.names, nullptr);
  }

  Model& model() { return model_; }
  Graph& graph() { return *model_.graph; }

  ValueId Input(const std::string& name, DataType type, std::vector<DimExpr> dims) {
    const ValueId id = graph().MakeValue(name, ValueType::Tensor(type), SymbolicShape{std::move(dims)});
    graph().AddInput(id);
    return id;
  }

  // A constant vector (or scalar) of integers.
  ValueId Ints(const std::vector<int64_t>& values, bool scalar = false) {
    const Shape shape = scalar ? Shape{} : Shape{static_cast<int64_t>(values.size())};
    return Constant(*Tensor::FromValues<int64_t>(DataType::kInt64, shape, values));
  }
  ValueId Floats(const std::vector<float>& values) {
    return Constant(
        *Tensor::FromValues<float>(DataType::kFloat, {static_cast<int64_t>(values.size())}, values));
  }
  ValueId Constant(const Tensor& tensor) {
    const ValueId id = graph().MakeValue("");
    Initializer initializer;
    initializer.type = tensor.type();
    initializer.shape = tensor.shape();
    initializer.source = tensor;
    graph().AddInitializer(id, std::move(initializer));
    return id;
  }

  // Weights of which only type and shape exist.
  ValueId Weight(DataType type, const Shape& shape) {
    const ValueId id = graph().MakeValue("");
    Initializer initializer;
    initializer.type = type;
    initializer.shape = shape;
    initializer.source = ExternalDataRef{"weights", 0, 0, ""};
    graph().AddInitializer(id, std::move(initializer));
    return id;
  }

  // Adds a node and returns its first output; the others are named like it with .1, .2 behind.
  ValueId Node(const std::string& op_type, std::vector<ValueId> inputs,
               const std::vector<NamedAttribute>& attributes = {}, int num_outputs = 1,
               const std::string& domain = "") {
    return AddTo(graph(), op_type, std::move(inputs), attributes, num_outputs, domain);
  }
  ValueId Output(ValueId first, int index) const {
    const ValueInfo& info = model_.graph->value(first);
    return model_.graph->node(info.producer).outputs[static_cast<size_t>(index)];
  }

  ValueId AddTo(Graph& target, const std::string& op_type, std::vector<ValueId> inputs,
                const std::vector<NamedAttribute>& attributes = {}, int num_outputs = 1,
                const std::string& domain = "") {
    const std::string name = op_type + "_" + std::to_string(count_++);
    std::vector<ValueId> outputs;
    for (int i = 0; i < num_outputs; ++i) {
      outputs.push_back(target.MakeValue(i == 0 ? name : name + "." + std::to_string(i)));
    }
    std::vector<Attribute> list;
    for (const auto& [attribute_name, value] : attributes) {
      Attribute& attribute = list.emplace_back();
      attribute.name = model_.names->Intern(attribute_name);
      attribute.value = value;
    }
    target.AddNode("node_" + name, op_type, domain, domain.empty() ? opset_ : 1, std::move(inputs), outputs,
                   std::move(list));
    return outputs[0];
  }

  Status Infer(const InferenceOptions& options = {}) { return InferShapes(model_, options); }

  std::string ShapeOf(ValueId id) const {
    const ValueInfo& info = model_.graph->value(id);
    return info.shape ? info.shape->ToString() : "unknown";
  }
  std::string TypeOf(ValueId id) const { return model_.graph->value(id).type.ToString(); }

  // Infers everything; the shape of one value, or the error.
  std::string InferredShape(ValueId id) {
    const Status status = Infer();
    return status.ok() ? ShapeOf(id) : status.ToString();
  }

 private:
  Model model_;
  int opset_;
  int count_ = 0;
};

}  // namespace lamina::testing
