// Nodes with subgraphs between nodes on devices: they run on the CPU with all that is in them, what their
// bodies capture is brought there once, and the plan says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/onnx/model_writer.h"
#include "runtime/session_impl.h"
#include "runtime/value_compare.h"
#include "support/random_data.h"
#include "support/sim_env.h"
#include "support/test_data.h"

namespace lamina {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRows = 2, kColumns = 3;

// In execution order; everything but `pick`, `trips` and what they hold runs on devices where these are:
//
//   a = Relu(x); b = Sigmoid(x)
//   pick = If(flag) { a + w } else { trips = Loop(3) { sum = sum + b } (from a) } then trips * w
//   y = Tanh(pick); z = a + w
//
// Outputs: y, z and a. So a body captures a value that is also an output, an inner body one of the main
// graph, and both an initializer that nodes outside read too.
class BranchingModel {
 public:
  BranchingModel() {
    model_.ir_version = 10;
    model_.opset_imports[""] = 21;
    model_.names = names_;
    model_.graph = std::make_unique<Graph>(names_, nullptr);
    Graph& graph = *model_.graph;
    const ValueId flag = Make(graph, "flag", DataType::kBool, {});
    const ValueId x = MakeFloats(graph, "x");
    graph.AddInput(flag);
    graph.AddInput(x);
    w_ = MakeFloats(graph, "w");
    graph.AddInitializer(w_, Floats(3));
    a_ = Add(graph, "a", "Relu", {x});
    b_ = Add(graph, "b", "Sigmoid", {x});
    const std::shared_ptr<Graph> then_branch = std::make_shared<Graph>(names_, &graph);
    then_branch->AddOutput(
        Add(*then_branch, "then", "Add", {then_branch->CaptureOuter(a_), then_branch->CaptureOuter(w_)}));
    const std::shared_ptr<Graph> else_branch = MakeElseBranch();
    const ValueId picked = MakeFloats(graph, "picked");
    graph.AddNode("pick", "If", "", 21, {flag}, {picked},
                  {Attribute{names_->Intern("then_branch"), then_branch, Name()},
                   Attribute{names_->Intern("else_branch"), else_branch, Name()}});
    graph.AddOutput(Add(graph, "y", "Tanh", {picked}));
    graph.AddOutput(Add(graph, "z", "Add", {a_, w_}));
    graph.AddOutput(a_);
  }

  Status Write(const std::string& path) const { return WriteModel(model_, path); }

  static std::vector<Value> Inputs(bool flag) {
    Tensor condition = *Tensor::Allocate(DataType::kBool, {});
    *condition.mutable_data<bool>() = flag;
    return {Value(std::move(condition)),
            Value(*Tensor::FromValues<float>(DataType::kFloat, Shape{kRows, kColumns},
                                             testing::RandomNumbers(kRows * kColumns, 7)))};
  }

 private:
  static ValueId Make(Graph& graph, const std::string& name, DataType type, SymbolicShape shape) {
    return graph.MakeValue(name, ValueType::Tensor(type), std::move(shape));
  }
  static ValueId MakeFloats(Graph& graph, const std::string& name) {
    return Make(graph, name, DataType::kFloat, {{DimExpr(kRows), DimExpr(kColumns)}});
  }
  static Initializer Floats(uint64_t seed) {
    const std::vector<float> numbers = testing::RandomNumbers(kRows * kColumns, seed);
    return {Name(), DataType::kFloat, Shape{kRows, kColumns},
            *Tensor::FromValues<float>(DataType::kFloat, Shape{kRows, kColumns}, numbers)};
  }
  static ValueId Add(Graph& graph, const std::string& name, const char* op, std::vector<ValueId> inputs) {
    const ValueId output = MakeFloats(graph, name + "_out");
    graph.AddNode(name, op, "", 21, std::move(inputs), {output});
    return output;
  }

  std::shared_ptr<Graph> MakeElseBranch() {
    auto branch = std::make_shared<Graph>(names_, model_.graph.get());
    auto body = std::make_shared<Graph>(names_, branch.get());
    const ValueId trip = Make(*body, "trip", DataType::kInt64, {});
    const ValueId go_on = Make(*body, "go_on", DataType::kBool, {});
    const ValueId sum = MakeFloats(*body, "sum");
    for (const ValueId input : {trip, go_on, sum}) body->AddInput(input);
    const ValueId still = Make(*body, "still", DataType::kBool, {});
    body->AddNode("keep_on", "Identity", "", 21, {go_on}, {still});
    body->AddOutput(still);
    body->AddOutput(Add(*body, "more", "Add", {sum, body->CaptureOuter(branch->CaptureOuter(b_))}));

    const ValueId count = Make(*branch, "count", DataType::kInt64, {});
    const std::vector<int64_t> three{3};
    branch->AddInitializer(count, {Name(), DataType::kInt64, Shape{},
                                   *Tensor::FromValues<int64_t>(DataType::kInt64, {}, three)});
    const ValueId total = MakeFloats(*branch, "total");
    branch->AddNode("trips", "Loop", "", 21, {count, ValueId(), branch->CaptureOuter(a_)}, {total},
                    {Attribute{names_->Intern("body"), body, Name()}});
    branch->AddOutput(Add(*branch, "scaled", "Mul", {total, branch->CaptureOuter(w_)}));
    return branch;
  }

  std::shared_ptr<NamePool> names_ = std::make_shared<NamePool>();
  Model model_;
  ValueId w_, a_, b_;
};

class SubgraphPlacementTest : public ::testing::Test {
 protected:
  SubgraphPlacementTest() { EXPECT_TRUE(BranchingModel().Write(path()).ok()); }
  std::string path() const { return folder_.File("model.onnx"); }

  static Result<std::vector<Value>> RunOn(Session& session, bool flag) {
    std::vector<Value> outputs;
    LAMINA_RETURN_IF_ERROR(session.Run({}, BranchingModel::Inputs(flag), &outputs));
    return outputs;
  }
  uint64_t CopiesSoFar() const {
    uint64_t copies = 0;
    for (int32_t device = 0; device < 2; ++device) {
      const SimCounters counters = sim_.Counters(device);
      copies += counters.copies_from_host + counters.copies_to_host + counters.copies_between_devices;
    }
    return copies;
  }

  testing::TempDir folder_;
  testing::SimEnv sim_;
};

class SubgraphRulesTest : public SubgraphPlacementTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(SubgraphRulesTest, BothBranchesGiveWhatTheCpuGives) {
  SessionOptions on_cpu;
  ASSERT_TRUE(on_cpu.AppendProvider("cpu").ok());
  const auto expected_session = Session::Load(sim_.env(), path(), on_cpu);
  ASSERT_TRUE(expected_session.ok()) << expected_session.status().ToString();
  SessionOptions placed;
  ASSERT_TRUE(placed.Set("session.name_based_layer_assignment", GetParam()).ok());
  const auto session = Session::Load(sim_.env(), path(), placed);
  ASSERT_TRUE(session.ok()) << session.status().ToString();
  for (const bool flag : {true, false, true}) {
    SCOPED_TRACE(flag);
    const auto expected = RunOn(**expected_session, flag);
    ASSERT_TRUE(expected.ok()) << expected.status().ToString();
    const uint64_t before = CopiesSoFar();
    const auto outputs = RunOn(**session, flag);
    ASSERT_TRUE(outputs.ok()) << outputs.status().ToString();
    EXPECT_EQ(CopiesSoFar() - before, (*session)->impl().plan()->cut_edges.size());
    ASSERT_EQ(outputs->size(), 3u);
    for (size_t i = 0; i < outputs->size(); ++i) {
      const Status same = CompareValues((*expected)[i], (*outputs)[i], {});
      EXPECT_TRUE(same.ok()) << "output " << i << ": " << same.ToString();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, SubgraphRulesTest,
                         ::testing::Values("", "gpu:1(a, y)", "gpu:1(b); cpu(z)", "cpu(a); gpu:0(b, z)",
                                           "gpu:0(pick); gpu:1(a, b)"));

TEST_F(SubgraphPlacementTest, ThePlanSaysWhyTheNodeIsOnTheCpu) {
  const auto session = Session::Load(sim_.env(), path());
  ASSERT_TRUE(session.ok()) << session.status().ToString();
  const Plan& plan = *(*session)->impl().plan();
  ASSERT_EQ(plan.fallbacks.size(), 1u);
  EXPECT_EQ(plan.fallbacks[0].node, "pick");
  EXPECT_EQ(plan.fallbacks[0].provider, "sim");
  EXPECT_THAT(plan.fallbacks[0].reason, HasSubstr("run on the host"));
}

}  // namespace
}  // namespace lamina
