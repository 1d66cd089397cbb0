// Inferred types and shapes against what the ONNX node tests recorded.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>

#include "gtest/gtest.h"
#include "model/function_inliner.h"
#include "model/onnx/model_reader.h"
#include "model/onnx/value_file.h"
#include "model/shape_inference/shape_inference.h"
#include "support/test_data.h"

namespace lamina {
namespace {

// What a value says about the shape of its type: of a tensor, or of the tensors in a container that has some.
std::vector<Shape> ShapesIn(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kTensor:
      return {value.tensor().shape()};
    case ValueKind::kSequence: {
      std::vector<Shape> shapes;
      for (const Value& item : value.sequence().items) {
        for (const Shape& shape : ShapesIn(item)) shapes.push_back(shape);
      }
      return shapes;
    }
    case ValueKind::kOptional:
      return value.optional().value ? ShapesIn(*value.optional().value) : std::vector<Shape>();
    default:
      return {};
  }
}

// Forgets what the file declares of everything that a node computes.
void ForgetInferredTypes(Graph& graph) {
  for (size_t i = 0; i < graph.values().size(); ++i) {
    ValueInfo& info = graph.mutable_value(ValueId{static_cast<int32_t>(i)});
    if (!info.producer.valid()) continue;
    info.type = {};
    info.shape.reset();
  }
  for (const Node& node : graph.nodes()) {
    for (Graph* subgraph : node.Subgraphs()) ForgetInferredTypes(*subgraph);
  }
}

// One case, loaded.
struct NodeTest {
  std::string name;
  std::string operators;  // of the main graph
  std::unique_ptr<Model> model;
  std::vector<ValueType> output_types;
  std::vector<Value> inputs;
  std::vector<Value> outputs;
};

NodeTest Load(const std::string& folder) {
  NodeTest test;
  test.name = std::filesystem::path(folder).filename();
  Result<std::unique_ptr<Model>> model = ReadModel(folder + "/model.onnx");
  if (!model.ok()) throw std::runtime_error(model.status().ToString());
  test.model = *std::move(model);
  const Status inlined = InlineFunctions(*test.model);
  if (!inlined.ok()) throw std::runtime_error(inlined.ToString());
  const Graph& graph = *test.model->graph;
  std::set<std::string> operators;
  for (const Node& node : graph.nodes()) {
    if (node.alive) operators.insert(node.op_type.str());
  }
  test.operators = fmt::format("{}", fmt::join(operators, " "));
  const std::string data = folder + "/test_data_set_0/";
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const std::string path = fmt::format("{}input_{}.pb", data, i);
    if (!std::filesystem::exists(path)) break;
    Result<Value> value = ReadValueFile(path, graph.value(graph.inputs()[i]).type);
    if (!value.ok()) throw std::runtime_error(value.status().ToString());
    test.inputs.push_back(*std::move(value));
  }
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const ValueType type = graph.value(graph.outputs()[i]).type;
    test.output_types.push_back(type);
    Result<Value> value = ReadValueFile(fmt::format("{}output_{}.pb", data, i), type);
    if (!value.ok()) throw std::runtime_error(value.status().ToString());
    test.outputs.push_back(*std::move(value));
  }
  ForgetInferredTypes(*test.model->graph);
  return test;
}

// Makes constants of the inputs, so that shapes that depend on their values can be told.
void MakeInputsConstant(NodeTest& test) {
  Graph& graph = *test.model->graph;
  test.model->ir_version = 3;  // where inputs with a value are constants
  for (size_t i = 0; i < test.inputs.size(); ++i) {
    if (!test.inputs[i].is_tensor()) continue;
    const Tensor& tensor = test.inputs[i].tensor();
    Initializer initializer;
    initializer.type = tensor.type();
    initializer.shape = tensor.shape();
    initializer.source = tensor;
    graph.AddInitializer(graph.inputs()[i], std::move(initializer));
  }
}

enum class Knowledge { kContradiction, kPartial, kComplete };

// Compares the inferred shapes of the outputs with the recorded ones. Symbols may stand for any number, but
// each for one.
Knowledge Compare(const NodeTest& test, std::string& difference) {
  const Graph& graph = *test.model->graph;
  Knowledge knowledge = Knowledge::kComplete;
  std::map<std::string, int64_t> symbols;
  for (size_t i = 0; i < test.outputs.size(); ++i) {
    const ValueInfo& info = graph.value(graph.outputs()[i]);
    const bool type_fits = info.type == test.output_types[i] && info.type.kind == test.outputs[i].kind();
    if (!type_fits && info.type.kind != ValueKind::kUndefined) {
      difference = fmt::format("output {}: inferred {}, is {}", i, info.type.ToString(),
                               test.output_types[i].ToString());
      return Knowledge::kContradiction;
    }
    if (!type_fits || !info.shape) knowledge = Knowledge::kPartial;
    if (!info.shape) continue;
    for (const Shape& expected : ShapesIn(test.outputs[i])) {
      difference =
          fmt::format("output {}: inferred {}, is {}", i, info.shape->ToString(), expected.ToString());
      if (info.shape->rank() != expected.rank()) return Knowledge::kContradiction;
      for (int axis = 0; axis < expected.rank(); ++axis) {
        const DimExpr& dim = info.shape->dims[static_cast<size_t>(axis)];
        if (!dim.is_constant()) knowledge = Knowledge::kPartial;
        if (dim.is_constant() && !dim.Is(expected[axis])) return Knowledge::kContradiction;
        if (dim.symbol().empty()) continue;
        const auto [entry, is_new] = symbols.emplace(dim.symbol(), expected[axis]);
        if (entry->second != expected[axis]) return Knowledge::kContradiction;
      }
    }
  }
  return knowledge;
}

std::vector<std::string> Folders() {
  std::vector<std::string> folders;
  const auto root = testing::NodeTestsPath();
  if (!root) return folders;
  for (const auto& entry : std::filesystem::directory_iterator(*root)) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  return folders;
}

class NodeTestShapes : public ::testing::TestWithParam<bool> {};

// Operators of the cases whose shapes only a run can tell, even where the inputs are known: how many elements
// of a kind there are, sizes of images, elements of sequences, results of loops.
const std::set<std::string, std::less<>> kDataDependent = {
    "Compress",
    "ImageDecoder",
    "NonMaxSuppression",
    "NonZero",
    "StringNormalizer",
    "StringSplit",
    "Unique",
    "Identity",  // of a sequence whose tensors have no shape
    "SequenceInsert",
    "SequenceMap",
    "SplitToSequence",
    "Loop",
    "Cast Ceil Div Loop Relu Sub",  // the function body of Range
    "Constant Loop SequenceEmpty SequenceLength",
};

TEST_P(NodeTestShapes, FitRecordedOutputs) {
  const bool inputs_are_constant = GetParam();
  const std::vector<std::string> folders = Folders();
  if (folders.empty()) GTEST_SKIP() << "no ONNX node tests; set LAMINA_TEST_DATA";
  int complete = 0;
  std::map<std::string, std::vector<std::string>> partial;  // by operators
  for (const std::string& folder : folders) {
    NodeTest test = Load(folder);
    if (inputs_are_constant) MakeInputsConstant(test);
    const Status status = InferShapes(*test.model);
    if (!status.ok()) {
      ADD_FAILURE() << test.name << ": " << status.ToString();
      continue;
    }
    std::string difference;
    switch (Compare(test, difference)) {
      case Knowledge::kContradiction:
        ADD_FAILURE() << test.name << ": " << difference;
        break;
      case Knowledge::kPartial:
        partial[test.operators].push_back(test.name + " (" + difference + ")");
        break;
      case Knowledge::kComplete:
        ++complete;
        break;
    }
  }
  fmt::print("{} of {} node tests: all types and shapes inferred as constants\n", complete, folders.size());
  for (const auto& [operators, names] : partial) {
    EXPECT_TRUE(!inputs_are_constant || kDataDependent.count(operators) > 0)
        << operators << ": " << names.size() << " cases are not told, as " << names[0];
  }
  // Without their values, inputs that are shapes, axes or sizes leave more to a run.
  EXPECT_GE(complete, inputs_are_constant ? 1730 : 1450);
}

INSTANTIATE_TEST_SUITE_P(Inputs, NodeTestShapes, ::testing::Bool(),
                         [](const auto& inputs) { return inputs.param ? "Constant" : "Unknown"; });

}  // namespace
}  // namespace lamina
