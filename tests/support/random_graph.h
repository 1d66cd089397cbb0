// Graphs made at random, for properties that hold for any.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "model/graph.h"
#include "model/model.h"
#include "model/onnx/model_writer.h"
#include "support/random_data.h"

namespace lamina::testing {

inline constexpr int64_t kRandomGraphWidth = 16;

// Nodes in blocks of "layers.N", each reading values made before it, also from far back; every value is
// [rows, kRandomGraphWidth].
class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed) : random_(seed) {
    model_.ir_version = 10;
    model_.opset_imports[""] = 21;
    model_.names = std::make_shared<NamePool>();
    model_.graph = std::make_unique<Graph>(model_.names, nullptr);
    values_.push_back(Make("x"));
    graph().AddInput(values_.front());
    const int num_layers = 1 + Below(6);
    for (int layer = 0; layer < num_layers; ++layer) {
      const int num_nodes = 1 + Below(8);
      for (int node = 0; node < num_nodes; ++node) AddNode("/layers." + std::to_string(layer) + "/");
    }
    graph().AddOutput(values_.back());
    if (values_.size() > 3) graph().AddOutput(values_[values_.size() / 2]);
  }

  Status Write(const std::string& path) const { return WriteModel(model_, path); }
  int Below(int bound) { return static_cast<int>(random_() % static_cast<uint32_t>(bound)); }

 private:
  Graph& graph() const { return *model_.graph; }
  ValueId Make(const std::string& name) {
    SymbolicShape shape;
    shape.dims = {DimExpr::FromDimParam("rows"), DimExpr(kRandomGraphWidth)};
    return graph().MakeValue(name, ValueType::Tensor(DataType::kFloat), shape);
  }
  ValueId Any() { return values_[static_cast<size_t>(Below(static_cast<int>(values_.size())))]; }

  void AddNode(const std::string& prefix) {
    const std::string name = prefix + "n" + std::to_string(count_++);
    const ValueId output = Make(name + "_out");
    switch (Below(5)) {
      case 0:
        graph().AddNode(name, "Add", "", 21, {Any(), Any()}, {output});
        break;
      case 1:
        graph().AddNode(name, "Sigmoid", "", 21, {Any()}, {output});
        break;
      case 2:
        graph().AddNode(name, "Mul", "", 21, {values_.back(), Any()}, {output});
        break;
      case 3:
        graph().AddNode(name, "Softmax", "", 21, {values_.back()}, {output});
        break;
      default:
        graph().AddNode(name, "MatMul", "", 21, {values_.back(), Weight(name + ".weight")}, {output});
        break;
    }
    values_.push_back(output);
  }

  ValueId Weight(const std::string& name) {
    const std::vector<float> numbers = RandomNumbers(kRandomGraphWidth * kRandomGraphWidth, random_());
    const ValueId id =
        graph().MakeValue(name, ValueType::Tensor(DataType::kFloat),
                          SymbolicShape{{DimExpr(kRandomGraphWidth), DimExpr(kRandomGraphWidth)}});
    Tensor tensor =
        *Tensor::FromValues<float>(DataType::kFloat, Shape{kRandomGraphWidth, kRandomGraphWidth}, numbers);
    graph().AddInitializer(
        id, {Name(), DataType::kFloat, Shape{kRandomGraphWidth, kRandomGraphWidth}, std::move(tensor)});
    return id;
  }

  std::mt19937 random_;
  Model model_;
  std::vector<ValueId> values_;
  int count_ = 0;
};

}  // namespace lamina::testing
