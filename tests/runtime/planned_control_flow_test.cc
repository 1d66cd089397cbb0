// Planned sessions of models with If: what a branch hands on lies in the place that the plan has for it, also
// where it is a value that the branch captured.
#include <gtest/gtest.h>

#include <cmath>

#include "model/onnx/model_writer.h"
#include "runtime/env_impl.h"
#include "runtime/session_impl.h"
#include "support/random_data.h"
#include "support/test_data.h"

namespace lamina {
namespace {

constexpr int64_t kWidth = 8;

// sum = x + x; chosen = If(take_sum) { sum, as it was captured } else { -sum }; then values that would take
// the memory of `sum`, which no node of the graph itself reads any more; y = chosen * last.
class ControlFlowModel {
 public:
  explicit ControlFlowModel(const std::string& path) {
    model_.ir_version = 10;
    model_.opset_imports[""] = 21;
    model_.names = std::make_shared<NamePool>();
    model_.graph = std::make_unique<Graph>(model_.names, nullptr);
    Graph& graph = *model_.graph;
    const ValueId x = Make(graph, "x");
    const ValueId take_sum = graph.MakeValue("take_sum", ValueType::Tensor(DataType::kBool), SymbolicShape{});
    graph.AddInput(x);
    graph.AddInput(take_sum);
    const ValueId sum = Make(graph, "sum"), chosen = Make(graph, "chosen");
    graph.AddNode("add", "Add", "", 21, {x, x}, {sum});
    graph.AddNode(
        "choose", "If", "", 21, {take_sum}, {chosen},
        {Branch("then_branch", sum, /*negated=*/false), Branch("else_branch", sum, /*negated=*/true)});
    ValueId last = x;
    for (int i = 0; i < 4; ++i) {
      const ValueId next = Make(graph, "s" + std::to_string(i));
      graph.AddNode("sigmoid" + std::to_string(i), "Sigmoid", "", 21, {last}, {next});
      last = next;
    }
    const ValueId y = Make(graph, "y");
    graph.AddNode("mul", "Mul", "", 21, {chosen, last}, {y});
    graph.AddOutput(y);
    const Status status = WriteModel(model_, path);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }

 private:
  static ValueId Make(Graph& graph, const std::string& name) {
    SymbolicShape shape;
    shape.dims = {DimExpr::FromDimParam("rows"), DimExpr(kWidth)};
    return graph.MakeValue(name, ValueType::Tensor(DataType::kFloat), shape);
  }
  Attribute Branch(const char* name, ValueId sum, bool negated) {
    auto body = std::make_shared<Graph>(model_.names, model_.graph.get());
    const ValueId captured = body->CaptureOuter(sum);
    ValueId output = captured;
    if (negated) {
      output = Make(*body, "negative");
      body->AddNode("neg", "Neg", "", 21, {captured}, {output});
    }
    body->AddOutput(output);
    return {model_.names->Intern(name), std::move(body)};
  }

  Model model_;
};

TEST(PlannedControlFlowTest, BranchesGiveWhatTheyGiveWithoutAPlan) {
  const testing::TempDir folder;
  const std::string path = folder.File("model.onnx");
  const ControlFlowModel model(path);
  const std::shared_ptr<Env> env = *Env::Create({1});
  SessionOptions options;
  ASSERT_TRUE(options.Set("session.max_shape_override", "x:[16,8]").ok());
  ASSERT_TRUE(options.Set("session.pre_allocate_execution_buffers", "1").ok());
  const auto session = Session::Load(env, path, options);
  ASSERT_TRUE(session.ok()) << session.status().ToString();
  ASSERT_TRUE((*session)->impl().plan()->planned) << (*session)->impl().plan()->not_planned_because;
  EXPECT_EQ((*session)->impl().plan()->warnings.size(), 1u);
  for (const int64_t rows : {1, 7, 16}) {
    for (const bool take_sum : {true, false}) {
      const std::vector<float> numbers = testing::RandomNumbers(rows * kWidth, 5);
      const std::vector<Value> inputs{
          *Tensor::FromValues<float>(DataType::kFloat, Shape{rows, kWidth}, numbers),
          *Tensor::FromValues<bool>(DataType::kBool, Shape{}, {&take_sum, 1})};
      std::vector<Value> outputs;
      const Status status = (*session)->Run({}, inputs, &outputs);
      ASSERT_TRUE(status.ok()) << status.ToString();
      const auto found = outputs[0].tensor().elements<float>();
      for (size_t i = 0; i < numbers.size(); ++i) {
        float last = numbers[i];
        for (int k = 0; k < 4; ++k) last = 1.0F / (1.0F + std::exp(-last));
        EXPECT_NEAR(found[i], (take_sum ? 2 : -2) * numbers[i] * last, 1e-5) << rows << " " << take_sum;
      }
    }
  }
}

}  // namespace
}  // namespace lamina
