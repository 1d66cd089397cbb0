// The framework: time, bounds, subgraphs, placement.
#include <ctime>

#include "rewrite/rewrite_fixture.h"

namespace lamina::testing {
namespace {

TEST_F(RewriteTest, TenThousandNodesTakeLessThanASecond) {
  ValueId x = In("x", {"b", "s", "16"});
  const ValueId scale = Floats(Shape{16}, std::vector<float>(16, 1.5f));
  while (graph().num_alive_nodes() < 10000) {
    const ValueId mean =
        Op("ReduceMean", {Op("Pow", {x, Float(2)})}, {Attr("axes", std::vector<int64_t>{-1})});
    const ValueId inverse = Op("Div", {Float(1), Op("Sqrt", {Op("Add", {mean, Float(1e-6f)})})});
    const ValueId normed = Op("Mul", {scale, Op("Mul", {x, inverse})});
    const ValueId silu = Op("Mul", {normed, Op("Sigmoid", {normed})});
    x = Op("Add", {x, Op("Identity", {silu})});
  }
  Out(x);
  ASSERT_TRUE(InferShapes(*model_).ok());
  const std::clock_t start = std::clock();
  const Result<RewriteReport> report = ApplyRewrites(*model_);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  ASSERT_TRUE(report.ok());
  EXPECT_LT(report->nodes_after, 3000);
  EXPECT_LT(seconds, 1.0);
}

TEST_F(RewriteTest, SubgraphsAreRewritten) {
  const ValueId x = In("x", {"n"});
  const auto branch = [&] {
    auto body = std::make_shared<Graph>(model_->names, &graph());
    const ValueId captured = body->CaptureOuter(x);
    const ValueId same = body->MakeValue({});
    body->AddNode("", "Identity", "", 17, {captured}, {same});
    const ValueId result = body->MakeValue({});
    body->AddNode("", "Relu", "", 17, {same}, {result});
    body->AddOutput(result);
    return body;
  };
  auto first = branch();
  Out(Op("If", {In("c", {}, DataType::kBool)}, {Attr("then_branch", first), Attr("else_branch", branch())}));
  Apply();
  EXPECT_EQ(first->num_alive_nodes(), 1);
}

TEST_F(RewriteTest, NothingHappensWhereAllIsDisabled) {
  Out(Op("Relu", {Op("Identity", {In("x", {"n"})})}));
  for (const char* disabled : {"all", "level1"}) {
    RewriteOptions options;
    options.disabled = disabled;
    ASSERT_TRUE(InferShapes(*model_).ok());
    EXPECT_EQ(ApplyRewrites(*model_, options)->total(), 0);
  }
  EXPECT_EQ(Count("Identity"), 1);
}

// A level-2 run without level-2 rewrites changes nothing and asks for nothing.
TEST_F(RewriteTest, LevelTwoKeepsAssignments) {
  class OneProvider : public NodeAssignment {
   public:
    std::string_view ProviderOf(const Graph& /*graph*/, NodeId /*node*/) const override { return "cpu"; }
    void Inherit(const Graph& /*graph*/, NodeId /*made*/, NodeId /*original*/) override {}
  };
  Out(Op("Relu", {In("x", {"n"})}));
  ASSERT_TRUE(InferShapes(*model_).ok());
  OneProvider assignment;
  const Result<RewriteReport> report = ApplyLevel2Rewrites(*model_, assignment);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->nodes_after, 1);
}

// What replaces nodes goes where they were, and patterns that cross providers stay.
TEST_F(RewriteTest, EditsTellTheAssignment) {
  class ByName : public NodeAssignment {
   public:
    std::string_view ProviderOf(const Graph& graph, NodeId node) const override {
      return graph.node(node).op_type == "Sigmoid" ? "far" : "near";
    }
    void Inherit(const Graph& graph, NodeId made, NodeId original) override {
      inherited.emplace_back(graph.node(made).op_type.str(), graph.node(original).op_type.str());
    }
    std::vector<std::pair<std::string, std::string>> inherited;
  };
  const ValueId x = In("x", {"n"});
  const ValueId relu = Op("Relu", {x});
  const NodeId root = last_node_;
  Out(relu);
  ByName assignment;
  RewriteEnvironment environment;
  environment.model = model_.get();
  environment.assignment = &assignment;
  GraphEditor editor(graph(), environment);
  const NodeId other = graph().AddNode("", "Sigmoid", "", 17, {x}, {graph().MakeValue({})});
  const NodeId both[] = {root, other};
  EXPECT_FALSE(editor.OnOneProvider(both));
  editor.Replace(root, "Elu", {"Elu", "", {x}});
  ASSERT_EQ(assignment.inherited.size(), 1u);
  EXPECT_EQ(assignment.inherited[0], std::make_pair(std::string("Elu"), std::string("Relu")));
}

}  // namespace
}  // namespace lamina::testing
