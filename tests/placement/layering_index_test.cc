#include "placement/layering_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

#include "placement/module_path.h"

namespace lamina {
namespace {

NodeId AddNode(Graph& graph, const std::string& name, MetadataProps metadata = {},
               std::vector<Attribute> attributes = {}) {
  return graph.AddNode(name, "Relu", "", 14, {}, {graph.MakeValue("")}, std::move(attributes),
                       std::move(metadata));
}

LayerRules Rules(const char* text, RuleMode mode) { return *ParseLayerRules(text, mode); }

struct NestedGraphs {
  std::shared_ptr<NamePool> names = std::make_shared<NamePool>();
  Graph main{names, nullptr};
  std::shared_ptr<Graph> body = std::make_shared<Graph>(names, &main);
  NodeId outer, plain, inner_plain, inner_annotated;

  NestedGraphs() {
    inner_plain = AddNode(*body, "layers.7/inner");
    inner_annotated = AddNode(*body, "inner2", {{"layer_ann", "other"}});
    Attribute attribute{names->Intern("then_branch"), body, Name()};
    outer = AddNode(main, "outer", {{"layer_ann", "block_1"}}, {attribute});
    plain = AddNode(main, "layers.3/MatMul");
  }
};

TEST(LayeringIndexTest, AnnotationsAreInheritedBySubgraphs) {
  const NestedGraphs graphs;
  const LayeringIndex index(graphs.main, Rules("gpu(block); cpu(=other)", RuleMode::kAnnotation),
                            {true, true});
  EXPECT_EQ(index.RuleOf(graphs.main, graphs.outer), 0u);
  EXPECT_EQ(index.RuleOf(graphs.main, graphs.plain), std::nullopt);
  EXPECT_EQ(index.RuleOf(*graphs.body, graphs.inner_plain), 0u);
  EXPECT_EQ(index.RuleOf(*graphs.body, graphs.inner_annotated), 1u);
  EXPECT_EQ(index.CountNodes(0), 2u);
}

TEST(LayeringIndexTest, NothingIsInheritedFromARuleWithoutDevice) {
  const NestedGraphs graphs;
  const LayeringIndex index(graphs.main, Rules("gpu(block); cpu(=other)", RuleMode::kAnnotation),
                            {false, true});
  EXPECT_EQ(index.RuleOf(graphs.main, graphs.outer), std::nullopt);
  EXPECT_EQ(index.RuleOf(*graphs.body, graphs.inner_plain), std::nullopt);
}

TEST(LayeringIndexTest, NamesAreMatchedWithoutInheritance) {
  const NestedGraphs graphs;
  const LayeringIndex index(graphs.main, Rules("gpu(layers.[0-5], outer); cpu(layers.7)", RuleMode::kName),
                            std::vector<bool>(8, true));
  EXPECT_TRUE(index.RuleOf(graphs.main, graphs.outer));
  EXPECT_TRUE(index.RuleOf(graphs.main, graphs.plain));
  EXPECT_EQ(index.RuleOf(*graphs.body, graphs.inner_plain), 7u);
  EXPECT_EQ(index.RuleOf(*graphs.body, graphs.inner_annotated), std::nullopt);
}

TEST(LayeringIndexTest, UnassignAndUpdate) {
  NestedGraphs graphs;
  LayeringIndex index(graphs.main, Rules("gpu(layers.3)", RuleMode::kName), {true});
  index.Unassign(graphs.main, graphs.plain);
  EXPECT_EQ(index.RuleOf(graphs.main, graphs.plain), std::nullopt);
  EXPECT_EQ(index.CountNodes(0), 0u);
  const NodeId made = AddNode(graphs.main, "layers.3/MatMul/Fused");
  index.Update(graphs.main, {graphs.plain, made});
  EXPECT_EQ(index.RuleOf(graphs.main, graphs.plain), 0u);
  EXPECT_EQ(index.RuleOf(graphs.main, made), 0u);
  EXPECT_EQ(index.CountNodes(0), 2u);
}

TEST(LayeringIndexTest, NodesAreMatchedAnewAfterAllWereUnassigned) {
  NestedGraphs graphs;
  LayeringIndex index(graphs.main, Rules("gpu(block); cpu(=other)", RuleMode::kAnnotation), {true, true});
  index.Unassign(graphs.main, graphs.outer);
  index.Unassign(*graphs.body, graphs.inner_plain);
  index.Unassign(*graphs.body, graphs.inner_annotated);
  EXPECT_EQ(index.CountNodes(0) + index.CountNodes(1), 0u);
  index.Update(graphs.main, {graphs.outer});
  index.Update(*graphs.body, {graphs.inner_plain, graphs.inner_annotated});
  EXPECT_EQ(index.RuleOf(graphs.main, graphs.outer), 0u);
  EXPECT_EQ(index.RuleOf(*graphs.body, graphs.inner_plain), std::nullopt) << "an update inherits nothing";
  EXPECT_EQ(index.RuleOf(*graphs.body, graphs.inner_annotated), 1u);
}

TEST(ModulePathTest, ComesFromTheScopesOfTheExporter) {
  auto names = std::make_shared<NamePool>();
  Graph graph(names, nullptr);
  const auto path = [&](const char* scopes) {
    return ModulePath(
        graph.node(AddNode(graph, "node_MatMul_206", {{"pkg.torch.onnx.name_scopes", scopes}})));
  };
  EXPECT_EQ(path("['', 'model', 'model.layers.3', 'model.layers.3.self_attn', 'linear_1']"),
            "model/layers.3/self_attn/");
  EXPECT_EQ(path("['', 'lm_head', 'linear']"), "lm_head/");
  EXPECT_EQ(path("['', 'add']"), "");
  EXPECT_EQ(path(""), "");
  EXPECT_EQ(path("['', 'model"), "");
}

TEST(LayeringIndexTest, MatchesTheModulePathWhereTheNameMatchesNothing) {
  auto names = std::make_shared<NamePool>();
  Graph graph(names, nullptr);
  const NodeId node =
      AddNode(graph, "node_MatMul_206",
              {{"pkg.torch.onnx.name_scopes", "['', 'model', 'model.layers.3', 'linear_1']"}});
  const LayeringIndex index(graph, Rules("gpu(layers.3/)", RuleMode::kName), {true});
  EXPECT_EQ(index.RuleOf(graph, node), 0u);
}

// A model of 300 layers, and rules that name each.
class LargeGraphTest : public ::testing::Test {
 protected:
  // Seconds of processor time that the index of `num_nodes` takes, the fastest of three.
  double Time(int num_nodes) {
    Graph graph(std::make_shared<NamePool>(), nullptr);
    for (int i = 0; i < num_nodes; ++i) {
      AddNode(graph,
              "/model/layers." + std::to_string(i % 300) + "/mlp/node_" + std::to_string(i) + "/MatMul");
    }
    double fastest_s = 1e9;
    for (int repeat = 0; repeat < 3; ++repeat) {
      const std::clock_t start = std::clock();
      const LayeringIndex index(graph, rules_, std::vector<bool>(rules_.rules.size(), true));
      const std::clock_t end = std::clock();
      EXPECT_EQ(index.CountNodes(299), static_cast<size_t>(num_nodes / 300));
      fastest_s = std::min(fastest_s, static_cast<double>(end - start) / CLOCKS_PER_SEC);
    }
    return fastest_s;
  }

  const LayerRules rules_ = Rules("gpu(layers.[0-149]); cpu(layers.[150-299])", RuleMode::kName);
};

TEST_F(LargeGraphTest, IsIndexedInTime) {
  const double elapsed_s = Time(100'000);
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(elapsed_s, 0.5);
#else
  EXPECT_GT(elapsed_s, 0);
#endif
}

// Four times the nodes take about four times as long; a quadratic index would take sixteen.
TEST_F(LargeGraphTest, TimeGrowsLinearlyWithNodes) {
  const double quarter_s = Time(25'000);
  const double half_s = Time(50'000);
  const double whole_s = Time(100'000);
  EXPECT_LT(half_s, 4 * quarter_s);
  EXPECT_LT(whole_s, 8 * quarter_s);
}

}  // namespace
}  // namespace lamina
