#include "placement/layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "model/onnx/model_reader.h"
#include "support/test_data.h"

namespace lamina {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Gt;

std::unique_ptr<Model> ReadZoo(const std::string& name) {
  auto model = ReadModel(testing::SourcePath("tests/data/zoo/" + name + "/model.onnx"));
  EXPECT_TRUE(model.ok()) << model.status().ToString();
  return std::move(model).value();
}

// Layer of the node called `name`.
std::string LayerOf(const Graph& graph, const LayerAssignment& layers, const std::string& name) {
  const NodeId id = graph.FindNode(name);
  return id.valid() ? std::string(layers.NameOf(layers.OfNode(id))) : "no such node";
}

uint64_t AllWeightBytes(const Graph& graph) {
  uint64_t bytes = 0;
  for (const Initializer& initializer : graph.initializers()) bytes += initializer.size_bytes();
  return bytes;
}

TEST(LayersTest, GenAiExportsSayItInNodeNames) {
  const auto model = ReadZoo("llama-fp32");
  const Graph& graph = *model->graph;
  const auto layers = AssignLayers(graph);
  ASSERT_TRUE(layers.ok());
  EXPECT_EQ(layers->source, LayerSource::kNodeNames);
  EXPECT_THAT(layers->names, ElementsAre("layers.0", "layers.1", "layers.2", "layers.3"));
  EXPECT_EQ(LayerOf(graph, *layers, "/model/embed_tokens/Gather"), "embedding");
  EXPECT_EQ(LayerOf(graph, *layers, "/model/layers.1/attn/GroupQueryAttention"), "layers.1");
  EXPECT_EQ(LayerOf(graph, *layers, "/model/layers.4/final_norm_layernorm/SkipLayerNorm"), "head");
  EXPECT_EQ(LayerOf(graph, *layers, "/lm_head/MatMul"), "head");
  const std::vector<uint64_t> bytes = LayerWeightBytes(graph, *layers);
  EXPECT_EQ(bytes.size(), 6U);
  EXPECT_EQ(std::accumulate(bytes.begin(), bytes.end(), uint64_t{0}), AllWeightBytes(graph));
}

TEST(LayersTest, DynamoExportsSayItInModulePaths) {
  const auto model = ReadZoo("llama-torch-dynamo");
  const auto layers = AssignLayers(*model->graph);
  ASSERT_TRUE(layers.ok());
  EXPECT_EQ(layers->source, LayerSource::kModulePaths);
  EXPECT_THAT(layers->names, ElementsAre("layers.0", "layers.1", "layers.2", "layers.3"));
}

TEST(LayersTest, EveryModelOfTheZooHasAlikeLayers) {
  for (const char* name : {"ernie-fp32", "gemma2-fp32", "gptoss-fp32", "hunyuan-fp32", "llama-fp16-cuda",
                           "llama-int4-cpu", "llama-torch-dynamo", "llama-torch-script", "llama31-fp32",
                           "mistral-fp32", "qwen2-fp32", "qwen2-torch-script", "qwen3-fp32"}) {
    const auto model = ReadZoo(name);
    const auto layers = AssignLayers(*model->graph);
    ASSERT_TRUE(layers.ok());
    ASSERT_GE(layers->count(), 2) << name;
    EXPECT_NE(layers->source, LayerSource::kAttention) << name;
    const std::vector<uint64_t> bytes = LayerWeightBytes(*model->graph, *layers);
    // The first layer has the rotary tables too, which it shares with the others.
    EXPECT_GE(bytes[1], bytes[2]) << name;
    for (int layer = 2; layer < layers->count(); ++layer) {
      EXPECT_EQ(bytes[static_cast<size_t>(layer) + 1], bytes[2]) << name << " " << layer;
    }
    EXPECT_THAT(bytes, Each(Gt(0U))) << name;
  }
}

// Without names and metadata, layers come from the attention nodes; they must be the same.
TEST(LayersTest, AttentionSpansAgreeWithNames) {
  for (const char* name : {"ernie-fp32", "gemma2-fp32", "gptoss-fp32", "hunyuan-fp32", "llama-fp16-cuda",
                           "llama-int4-cpu", "llama31-fp32", "mistral-fp32", "qwen2-fp32", "qwen3-fp32",
                           "llama-torch-dynamo", "llama-torch-script", "qwen2-torch-script"}) {
    const auto model = ReadZoo(name);
    Graph& graph = *model->graph;
    const auto named = AssignLayers(graph);
    ASSERT_TRUE(named.ok());
    for (size_t i = 0; i < graph.nodes().size(); ++i) {
      Node& node = graph.mutable_node(NodeId{static_cast<int32_t>(i)});
      node.name = graph.names().Intern("node");
      node.metadata_props.clear();
    }
    const auto found = AssignLayers(graph);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->source, LayerSource::kAttention) << name;
    EXPECT_EQ(found->count(), named->count()) << name;
    const std::vector<uint64_t> found_bytes = LayerWeightBytes(graph, *found);
    const std::vector<uint64_t> named_bytes = LayerWeightBytes(graph, *named);
    ASSERT_EQ(found_bytes.size(), named_bytes.size()) << name;
    for (size_t i = 0; i < found_bytes.size(); ++i) {
      // Constants of a few bytes that compute shapes belong nowhere in particular.
      EXPECT_NEAR(static_cast<double>(found_bytes[i]), static_cast<double>(named_bytes[i]), 64)
          << name << " " << i;
    }
  }
}

class SmallGraphTest : public ::testing::Test {
 protected:
  SmallGraphTest() {
    last_ = graph_.MakeValue("x");
    graph_.AddInput(last_);
  }
  // A node that reads the last one's output and a matrix of `bytes` bytes.
  NodeId Add(const std::string& name, int64_t bytes, const std::string& annotation = "") {
    const ValueId weight = graph_.MakeValue(name + ".weight");
    graph_.AddInitializer(weight, {Name(), DataType::kUint8, Shape{bytes, 1}, TensorBytesView{}});
    const ValueId output = graph_.MakeValue(name + ".out");
    MetadataProps metadata;
    if (!annotation.empty()) metadata.emplace_back("layer_ann", annotation);
    const NodeId id = graph_.AddNode(name, "MatMul", "", 17, {last_, weight}, {output}, {}, metadata);
    last_ = output;
    return id;
  }

  Graph graph_{std::make_shared<NamePool>(), nullptr};
  ValueId last_;
};

TEST_F(SmallGraphTest, AnnotationsComeFirst) {
  Add("/layers.0/a", 1);
  Add("/layers.0/b", 2, "first");
  Add("/layers.0/c", 4);
  Add("/layers.1/a", 8, "second");
  Add("/layers.1/b", 16);
  const auto layers = AssignLayers(graph_);
  ASSERT_TRUE(layers.ok());
  EXPECT_EQ(layers->source, LayerSource::kAnnotations);
  EXPECT_THAT(layers->names, ElementsAre("first", "second"));
  EXPECT_THAT(LayerWeightBytes(graph_, *layers), ElementsAre(1, 2 + 4, 8, 16));
}

TEST_F(SmallGraphTest, NumbersOfSingleNodesAreNoLayers) {
  for (int i = 0; i < 32; ++i) Add("node_MatMul_" + std::to_string(i), 10);
  const auto layers = AssignLayers(graph_);
  ASSERT_TRUE(layers.ok());
  EXPECT_EQ(layers->source, LayerSource::kEqualBytes);
  EXPECT_EQ(layers->count(), 16);
  EXPECT_THAT(LayerWeightBytes(graph_, *layers), ::testing::Contains(20).Times(16));
}

TEST_F(SmallGraphTest, NodesWithoutNumberBelongToTheLayerAroundThem) {
  Add("embed", 1);
  for (const char* name : {"/h.0/a", "/h.0/b", "/h.0/c"}) Add(name, 2);
  Add("between", 4);
  for (const char* name : {"/h.1/a", "/h.1/b"}) Add(name, 8);
  Add("inside", 16);
  Add("/h.1/c", 32);
  Add("head", 64);
  const auto layers = AssignLayers(graph_);
  ASSERT_TRUE(layers.ok());
  EXPECT_THAT(layers->names, ElementsAre("h.0", "h.1"));
  EXPECT_THAT(LayerWeightBytes(graph_, *layers), ElementsAre(1, 6 + 4, 16 + 16 + 32, 64));
}

TEST_F(SmallGraphTest, SharedWeightsCountOnceAtTheirFirstUser) {
  for (const char* name : {"/h.0/a", "/h.0/b", "/h.0/c", "/h.1/a", "/h.1/b", "/h.1/c"}) Add(name, 2);
  const NodeId head = Add("head", 1);
  graph_.SetInput(head, 1, graph_.FindValue("/h.0/a.weight"));
  const auto layers = AssignLayers(graph_);
  ASSERT_TRUE(layers.ok());
  // The head's own weight is left without a user.
  EXPECT_THAT(LayerWeightBytes(graph_, *layers), ElementsAre(1, 6, 6, 0));
}

TEST(LayersTest, AnEmptyGraphHasNoLayers) {
  const Graph graph(std::make_shared<NamePool>(), nullptr);
  const auto layers = AssignLayers(graph);
  ASSERT_TRUE(layers.ok());
  EXPECT_EQ(layers->count(), 0);
  EXPECT_THAT(LayerWeightBytes(graph, *layers), ElementsAre(0, 0));
}

}  // namespace
}  // namespace lamina
