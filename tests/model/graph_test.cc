#include "model/graph.h"

#include <gtest/gtest.h>

namespace lamina {
namespace {

class GraphTest : public ::testing::Test {
 protected:
  // A node with one output, made fresh.
  NodeId Add(const std::string& name, std::vector<ValueId> inputs, std::vector<Attribute> attributes = {}) {
    const ValueId output = graph_.MakeValue(name + "_out");
    return graph_.AddNode(name, "Op", "", 17, std::move(inputs), {output}, std::move(attributes));
  }
  ValueId OutputOf(NodeId id) const { return graph_.node(id).outputs[0]; }
  std::vector<std::string> Order() const {
    const Result<std::vector<NodeId>> order = graph_.TopologicalOrder();
    std::vector<std::string> names;
    if (order.ok()) {
      for (const NodeId id : *order) names.push_back(graph_.node(id).name.str());
    } else {
      names.push_back(order.status().message());
    }
    return names;
  }

  std::shared_ptr<NamePool> names_ = std::make_shared<NamePool>();
  Graph graph_{names_, nullptr};
};

TEST_F(GraphTest, TracksProducersAndUses) {
  const ValueId x = graph_.MakeValue("x");
  graph_.AddInput(x);
  const NodeId a = Add("a", {x, x});
  const NodeId b = Add("b", {OutputOf(a), ValueId()});
  EXPECT_EQ(graph_.value(x).uses, (std::vector<Use>{{a, 0}, {a, 1}}));
  EXPECT_EQ(graph_.value(OutputOf(a)).producer, a);

  graph_.ReplaceUses(OutputOf(a), x);
  EXPECT_TRUE(graph_.value(OutputOf(a)).uses.empty());
  EXPECT_EQ(graph_.node(b).inputs[0], x);
  const ValueId old_output = OutputOf(a);
  graph_.RemoveNode(a);
  EXPECT_EQ(graph_.value(x).uses, (std::vector<Use>{{b, 0}}));
  EXPECT_FALSE(graph_.value(old_output).producer.valid());
  EXPECT_EQ(graph_.num_alive_nodes(), 1);
  EXPECT_FALSE(graph_.FindNode("a").valid());
}

TEST_F(GraphTest, OrderKeepsTheFileAndPlacesAddedNodesBeforeTheirUsers) {
  const ValueId x = graph_.MakeValue("x");
  const NodeId a = Add("a", {x});
  const NodeId b = Add("b", {OutputOf(a)});
  const NodeId c = Add("c", {x});
  Add("d", {OutputOf(b), OutputOf(c)});
  EXPECT_EQ(Order(), (std::vector<std::string>{"a", "b", "c", "d"}));
  // A rewrite replaces b.
  const NodeId fused = Add("fused", {OutputOf(a)});
  graph_.ReplaceUses(OutputOf(b), OutputOf(fused));
  graph_.RemoveNode(b);
  EXPECT_EQ(Order(), (std::vector<std::string>{"a", "c", "fused", "d"}));
}

TEST_F(GraphTest, OrderRefusesCycles) {
  const NodeId a = Add("a", {graph_.MakeValue("x")});
  const NodeId b = Add("b", {OutputOf(a)});
  graph_.SetInput(a, 0, OutputOf(b));
  EXPECT_EQ(graph_.TopologicalOrder().status().code(), StatusCode::kInvalidModel);
}

TEST_F(GraphTest, GraphOutputsKeepTheirNames) {
  const NodeId a = Add("a", {graph_.MakeValue("x")});
  const NodeId identity = Add("identity", {OutputOf(a)});
  const ValueId output = OutputOf(identity);
  graph_.AddOutput(output);
  graph_.ReplaceUses(output, OutputOf(a));
  graph_.RemoveNode(identity);
  ASSERT_EQ(graph_.outputs().size(), 1U);
  EXPECT_EQ(graph_.outputs()[0], OutputOf(a));
  EXPECT_EQ(graph_.value(OutputOf(a)).name, "identity_out");
  EXPECT_EQ(graph_.FindValue("identity_out"), OutputOf(a));
  EXPECT_TRUE(graph_.value(OutputOf(a)).is_graph_output);
  EXPECT_FALSE(graph_.value(output).is_graph_output);
}

TEST_F(GraphTest, CapturesFollowUsesInsideSubgraphs) {
  const ValueId x = graph_.MakeValue("x");
  const ValueId y = graph_.MakeValue("y");
  auto body = std::make_shared<Graph>(names_, &graph_);
  const NodeId inner = body->AddNode("inner", "Op", "", 17, {body->ResolveName("x"), body->ResolveName("x")},
                                     {body->MakeValue("z")});
  auto other = std::make_shared<Graph>(names_, &graph_);
  other->AddOutput(other->ResolveName("x"));
  const Attribute attributes[] = {{names_->Intern("body"), body}, {names_->Intern("other"), other}};
  const NodeId owner = Add("owner", {}, {attributes[0], attributes[1]});
  const std::vector<Use> captured = {{owner, Use::kCapture}};
  EXPECT_EQ(graph_.value(x).uses, captured);

  // The last use in one subgraph goes: the other still has one.
  body->SetInput(inner, 0, body->ResolveName("y"));
  body->SetInput(inner, 1, body->ResolveName("y"));
  EXPECT_EQ(graph_.value(x).uses, captured);
  EXPECT_EQ(graph_.value(y).uses, captured);
  // Replacing in the outer graph reaches inside.
  graph_.ReplaceUses(x, y);
  EXPECT_TRUE(graph_.value(x).uses.empty());
  EXPECT_EQ(other->value(other->outputs()[0]).outer, y);
  graph_.RemoveNode(owner);
  EXPECT_TRUE(graph_.value(y).uses.empty());
}

TEST_F(GraphTest, ConstantsAreSeenFromSubgraphs) {
  const ValueId weight = graph_.MakeValue("w");
  graph_.AddInitializer(weight, {Name(), DataType::kFloat, Shape{0}, TensorBytesView{}});
  auto body = std::make_shared<Graph>(names_, &graph_);
  const ValueId captured = body->ResolveName("w");
  ASSERT_TRUE(captured.valid());
  EXPECT_EQ(body->ConstantOf(captured), &graph_.initializers()[0]);
  EXPECT_FALSE(body->ResolveName("nothing").valid());
}

TEST_F(GraphTest, GeneratedNamesAreFree) {
  Add("a", {});
  EXPECT_EQ(graph_.GenerateNodeName("b"), "b");
  EXPECT_EQ(graph_.GenerateNodeName("a"), "a_token_1");
  EXPECT_EQ(graph_.node(Add("a2", {})).name, "a2");
  const NodeId again = graph_.AddNode("a", "Op", "", 17, {}, {});
  EXPECT_EQ(graph_.node(again).name, "a_token_2") << "a token that was handed out is not handed out again";
}

}  // namespace
}  // namespace lamina
