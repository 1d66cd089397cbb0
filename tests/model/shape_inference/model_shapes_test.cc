// Shapes of the decoders and other real models that tests can read.
#include <fmt/format.h>

#include <chrono>
#include <map>
#include <set>

#include "gtest/gtest.h"
#include "model/decoder_contract.h"
#include "model/onnx/model_reader.h"
#include "model/onnx/value_file.h"
#include "model/shape_inference/shape_inference.h"
#include "support/test_data.h"

namespace lamina {
namespace {

// Names of values whose shape is not made of the symbols `allowed`, with what is known.
void CollectUnexplained(const Graph& graph, const std::set<std::string>& allowed,
                        std::vector<std::string>& unexplained) {
  for (const ValueInfo& info : graph.values()) {
    if (info.initializer.valid()) continue;
    bool explained = info.shape.has_value() && info.type.element != DataType::kUndefined;
    for (const DimExpr& dim : info.shape ? info.shape->dims : std::vector<DimExpr>()) {
      for (const std::string& symbol : dim.Symbols()) explained = explained && allowed.count(symbol) > 0;
      explained = explained && dim.known();
    }
    if (!explained) {
      unexplained.push_back(
          fmt::format("{} of {}: {}", info.name.view(),
                      info.producer.valid() ? graph.node(info.producer).op_type.view() : "input",
                      info.shape ? info.shape->ToString() : "no shape"));
    }
  }
  for (const Node& node : graph.nodes()) {
    for (const Graph* subgraph : node.Subgraphs()) CollectUnexplained(*subgraph, allowed, unexplained);
  }
}

bool IsReal(const std::string& path) { return path.find("/models/real/") != std::string::npos; }

std::vector<std::string> DecoderFiles() {
  std::vector<std::string> decoders;
  for (const std::string& path : testing::AllModelFiles()) {
    if (IsReal(path)) continue;
    if (path.find("/node/") != std::string::npos || path.find("/contrib/") != std::string::npos) continue;
    decoders.push_back(path);
  }
  return decoders;
}

TEST(ModelShapes, EveryShapeOfADecoderIsMadeOfBatchSequenceAndPast) {
  const std::vector<std::string> files = DecoderFiles();
  ASSERT_FALSE(files.empty());
  for (const std::string& path : files) {
    SCOPED_TRACE(path);
    Result<std::unique_ptr<Model>> model = ReadModel(path);
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    const Result<DecoderSignature> signature = InferDecoder(**model);
    ASSERT_TRUE(signature.ok()) << signature.status().ToString();
    std::set<std::string> allowed;
    for (const DimExpr& dim : {signature->batch, signature->sequence, signature->past}) {
      for (const std::string& symbol : dim.Symbols()) allowed.insert(symbol);
    }
    EXPECT_LE(allowed.size(), 3u);
    std::vector<std::string> unexplained;
    CollectUnexplained(*(*model)->graph, allowed, unexplained);
    if (unexplained.size() > 12) unexplained.resize(12);
    EXPECT_TRUE(unexplained.empty()) << fmt::format("{}", fmt::join(unexplained, "\n"));
  }
}

// Sets the shapes of the inputs to those of a recorded data set.
void UseRecordedInputShapes(Graph& graph, const std::string& folder) {
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    ValueInfo& info = graph.mutable_value(graph.inputs()[i]);
    const Result<Value> value = ReadValueFile(fmt::format("{}/input_{}.pb", folder, i), info.type);
    ASSERT_TRUE(value.ok()) << value.status().ToString();
    info.shape.emplace();
    for (const int64_t dim : value->tensor().shape()) info.shape->dims.emplace_back(dim);
  }
}

TEST(ModelShapes, RealModelsFitRecordedShapes) {
  int count = 0;
  for (const std::string& path : testing::AllModelFiles()) {
    if (!IsReal(path)) continue;
    SCOPED_TRACE(path);
    ++count;
    Result<std::unique_ptr<Model>> model = ReadModel(path);
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    // With the symbols of the file first: whatever is not known, nothing contradicts.
    Status status = InferShapes(**model);
    ASSERT_TRUE(status.ok()) << status.ToString();

    model = ReadModel(path);
    const std::string folder = path.substr(0, path.rfind('/')) + "/test_data_set_0";
    Graph& fixed = *(*model)->graph;
    UseRecordedInputShapes(fixed, folder);
    status = InferShapes(**model);
    ASSERT_TRUE(status.ok()) << status.ToString();
    for (size_t i = 0; i < fixed.outputs().size(); ++i) {
      const ValueInfo& output = fixed.value(fixed.outputs()[i]);
      const Result<Value> value = ReadValueFile(fmt::format("{}/output_{}.pb", folder, i), output.type);
      ASSERT_TRUE(value.ok()) << value.status().ToString();
      ASSERT_TRUE(output.shape);
      const Shape& expected = value->tensor().shape();
      ASSERT_EQ(output.shape->rank(), expected.rank());
      for (int axis = 0; axis < expected.rank(); ++axis) {
        const DimExpr& dim = output.shape->dims[static_cast<size_t>(axis)];
        // The branches of silero's Ifs give different shapes.
        if (dim.is_constant() || path.find("silero") == std::string::npos) {
          EXPECT_EQ(dim.ToString(), std::to_string(expected[axis]));
        }
      }
    }
  }
  if (count == 0) GTEST_SKIP() << "no real models; set LAMINA_TEST_DATA";
}

}  // namespace
}  // namespace lamina
