#include "model/function_inliner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lamina {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FunctionInlinerTest : public ::testing::Test {
 protected:
  FunctionInlinerTest() {
    model_.ir_version = 10;
    model_.opset_imports[""] = 21;
    model_.names = std::make_shared<NamePool>();
    model_.graph = std::make_unique<Graph>(model_.names, nullptr);
    input_ = main().MakeValue("x");
    main().AddInput(input_);
  }

  Graph& main() { return *model_.graph; }
  Name NameOf(const std::string& text) { return model_.names->Intern(text); }

  // An empty function local::NAME(inputs).
  Graph& AddFunction(const std::string& name, const std::vector<std::string>& inputs) {
    LocalFunction& function = model_.functions.emplace_back();
    function.domain = "local";
    function.name = name;
    function.opset_imports = {{"", 18}, {"local", 1}};
    function.body = std::make_unique<Graph>(model_.names, nullptr);
    for (const std::string& input : inputs) function.body->AddInput(function.body->MakeValue(input));
    return *function.body;
  }
  static NodeId Add(Graph& graph, const std::string& name, const std::string& op_type,
                    std::vector<ValueId> inputs, const std::string& output,
                    std::vector<Attribute> attributes = {}, const std::string& domain = "") {
    return graph.AddNode(name, op_type, domain, domain.empty() ? 18 : 1, std::move(inputs),
                         {graph.MakeValue(output)}, std::move(attributes));
  }
  NodeId Call(Graph& graph, const std::string& name, const std::string& function, std::vector<ValueId> inputs,
              const std::string& output, std::vector<Attribute> attributes = {}) {
    return Add(graph, name, function, std::move(inputs), output, std::move(attributes), "local");
  }
  static std::vector<std::string> NodesOf(const Graph& graph) {
    std::vector<std::string> nodes;
    const Result<std::vector<NodeId>> order = graph.TopologicalOrder();
    for (const NodeId id : *order) {
      nodes.push_back(graph.node(id).name.str() + ":" + graph.node(id).op_type.str());
    }
    return nodes;
  }

  Model model_;
  ValueId input_;
};

TEST_F(FunctionInlinerTest, BodiesReplaceCallsUnderDerivedNames) {
  Graph& body = AddFunction("twice", {"a"});
  const NodeId add = Add(body, "add", "Add", {body.FindValue("a"), body.FindValue("a")}, "sum");
  Add(body, "neg", "Neg", {body.node(add).outputs[0]}, "result");
  body.AddOutput(body.FindValue("result"));
  const NodeId call = Call(main(), "call", "twice", {input_}, "y");
  main().mutable_node(call).metadata_props = {{"layer_ann", "layer_3"}};
  Call(main(), "again", "twice", {main().FindValue("y")}, "z");
  main().AddOutput(main().FindValue("z"));

  ASSERT_TRUE(InlineFunctions(model_).ok());
  EXPECT_TRUE(model_.functions.empty());
  EXPECT_THAT(NodesOf(main()), ElementsAre("call/add:Add", "call/neg:Neg", "again/add:Add", "again/neg:Neg"));
  const Node& neg = main().node(main().FindNode("call/neg"));
  EXPECT_EQ(main().value(neg.outputs[0]).name, "y");
  EXPECT_EQ(neg.since_version, 18) << "the version the function imports";
  EXPECT_EQ(neg.LayerAnnotation(), "layer_3");
  EXPECT_EQ(main().value(main().node(main().FindNode("call/add")).outputs[0]).name, "call/sum");
  EXPECT_EQ(main().value(input_).uses.size(), 2U);
}

TEST_F(FunctionInlinerTest, AttributesComeFromTheCallOrTheDefault) {
  Graph& body = AddFunction("scaled", {"a"});
  const auto reference = [&](const std::string& name, const std::string& to) {
    Attribute attribute;
    attribute.name = NameOf(name);
    attribute.ref_name = NameOf(to);
    attribute.ref_type = AttributeType::kFloat;
    return attribute;
  };
  Add(body, "scale", "Op", {body.FindValue("a")}, "b",
      {reference("given", "alpha"), reference("defaulted", "beta"), reference("absent", "gamma")});
  body.AddOutput(body.FindValue("b"));
  model_.functions[0].attributes = {"alpha", "gamma"};
  model_.functions[0].attribute_defaults = {{NameOf("beta"), 2.0F}};
  Call(main(), "call", "scaled", {input_}, "y", {{NameOf("alpha"), 1.0F}});

  ASSERT_TRUE(InlineFunctions(model_).ok());
  const Node& node = main().node(main().FindNode("call/scale"));
  ASSERT_EQ(node.attributes.size(), 2U);
  EXPECT_EQ(std::get<float>(node.FindAttribute("given")->value), 1);
  EXPECT_EQ(std::get<float>(node.FindAttribute("defaulted")->value), 2);
}

TEST_F(FunctionInlinerTest, FunctionsCallFunctionsAlsoFromSubgraphs) {
  Graph& inner = AddFunction("inner", {"a"});
  Add(inner, "neg", "Neg", {inner.FindValue("a")}, "b");
  inner.AddOutput(inner.FindValue("b"));

  Graph& outer = AddFunction("outer", {"c", "a"});
  auto branch = std::make_shared<Graph>(model_.names, &outer);
  Call(*branch, "inside", "inner", {branch->ResolveName("a")}, "r");
  branch->AddOutput(branch->FindValue("r"));
  Add(outer, "if", "If", {outer.FindValue("c")}, "o", {{NameOf("then_branch"), branch}});
  outer.AddOutput(outer.FindValue("o"));
  Call(main(), "call", "outer", {input_, input_}, "y");
  main().AddOutput(main().FindValue("y"));

  ASSERT_TRUE(InlineFunctions(model_).ok());
  EXPECT_THAT(NodesOf(main()), ElementsAre("call/if:If"));
  const Node& node = main().node(main().FindNode("call/if"));
  const Graph& copy = *node.Subgraphs()[0];
  EXPECT_EQ(copy.parent(), &main());
  EXPECT_THAT(NodesOf(copy), ElementsAre("call/inside/neg:Neg"));
  const Node& neg = copy.node(copy.FindNode("call/inside/neg"));
  EXPECT_EQ(copy.value(neg.inputs[0]).outer, input_);
  EXPECT_EQ(copy.outputs()[0], neg.outputs[0]);
  EXPECT_EQ(main().value(input_).uses.size(), 2U) << "as the condition, and captured";
}

TEST_F(FunctionInlinerTest, PassedThroughAndAbsentValues) {
  Graph& body = AddFunction("pass", {"a", "optional"});
  Add(body, "op", "Op", {body.FindValue("a"), body.FindValue("optional")}, "b");
  for (const char* output : {"a", "b", "b"}) body.AddOutput(body.FindValue(output));
  main().AddNode("call", "pass", "local", 1, {input_},
                 {main().MakeValue("p"), main().MakeValue("q"), main().MakeValue("r")});

  ASSERT_TRUE(InlineFunctions(model_).ok());
  EXPECT_THAT(NodesOf(main()), ::testing::UnorderedElementsAre("call/op:Op", "call/Identity:Identity",
                                                               "call/Identity_token_1:Identity"));
  const Node& op = main().node(main().FindNode("call/op"));
  EXPECT_FALSE(op.inputs[1].valid());
  EXPECT_EQ(main().value(op.outputs[0]).name, "q");
}

TEST_F(FunctionInlinerTest, CallsMustFitTheFunction) {
  Graph& body = AddFunction("f", {"a"});
  Add(body, "op", "Op", {body.FindValue("a")}, "b");
  body.AddOutput(body.FindValue("b"));
  Call(main(), "call", "f", {input_, input_}, "y");
  const Status status = InlineFunctions(model_);
  EXPECT_EQ(status.code(), StatusCode::kInvalidModel);
  EXPECT_THAT(status.message(), HasSubstr("passes 2 inputs to function 'local::f', which has 1"));
}

TEST_F(FunctionInlinerTest, ExpansionIsBounded) {
  // Each function calls the next twice: 2^50 nodes.
  for (int i = 0; i < 50; ++i) {
    Graph& body = AddFunction("f" + std::to_string(i), {"a"});
    const std::string next = "f" + std::to_string(i + 1);
    Call(body, "one", next, {body.FindValue("a")}, "b");
    Call(body, "two", next, {body.FindValue("b")}, "c");
    body.AddOutput(body.FindValue("c"));
  }
  Call(main(), "call", "f0", {input_}, "y");
  EXPECT_EQ(InlineFunctions(model_).code(), StatusCode::kResourceExhausted);
}

TEST_F(FunctionInlinerTest, NestingIsBounded) {
  for (int i = 0; i < kMaxCallDepth + 2; ++i) {
    Graph& body = AddFunction("f" + std::to_string(i), {"a"});
    Call(body, "n", "f" + std::to_string(i + 1), {body.FindValue("a")}, "b");
    body.AddOutput(body.FindValue("b"));
  }
  Call(main(), "call", "f0", {input_}, "y");
  EXPECT_EQ(InlineFunctions(model_).code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace lamina
