// Conformance cases of a single node, run through OpTester.
#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "conformance/node_cases.h"
#include "model/onnx/model_reader.h"
#include "model/onnx/value_file.h"
#include "runtime/data_set.h"
#include "runtime/value_compare.h"
#include "support/op_tester.h"

namespace lamina::testing {
namespace {

bool MayAllocate(std::string_view op_type) {
  constexpr std::string_view kData[] = {"If", "Loop", "Scan", "SequenceMap", "Optional"};
  return std::find(std::begin(kData), std::end(kData), op_type) != std::end(kData) ||
         op_type.find("Sequence") != std::string_view::npos ||
         op_type.find("String") != std::string_view::npos;
}

Status RunDataSet(const Model& model, const Node& node, const std::string& folder, bool random_output) {
  const Graph& graph = *model.graph;
  const auto opset = model.opset_imports.find(node.domain.str());
  OpTester test(node.op_type, opset == model.opset_imports.end() ? 1 : opset->second, node.domain);
  for (const Attribute& attribute : node.attributes) test.Attr(attribute.name, attribute.value);

  std::vector<Value> inputs;  // of the graph
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const ValueInfo& info = graph.value(graph.inputs()[i]);
    const std::string path = folder + "/input_" + std::to_string(i) + ".pb";
    if (!std::filesystem::exists(path)) {
      inputs.emplace_back();
      continue;
    }
    LAMINA_ASSIGN_OR_RETURN(Value value, ReadValueFile(path, info.type));
    inputs.push_back(std::move(value));
  }
  bool strings = false;
  for (const ValueId id : node.inputs) {
    if (!id.valid()) {
      test.AbsentInput();
      continue;
    }
    if (const Initializer* constant = graph.ConstantOf(id)) {
      const std::optional<Tensor> tensor = constant->InMemory();
      if (!tensor) return UnsupportedError("an initializer is not in memory");
      test.ConstantValue(*tensor->Clone());
      continue;
    }
    const auto position =
        std::find(graph.inputs().begin(), graph.inputs().end(), id) - graph.inputs().begin();
    const Value& value = inputs.at(static_cast<size_t>(position));
    strings |= value.is_tensor() && value.tensor().type() == DataType::kString;
    test.InputValue(value);
  }
  std::vector<Value> expected;  // of the node
  for (const ValueId id : node.outputs) {
    const auto position =
        std::find(graph.outputs().begin(), graph.outputs().end(), id) - graph.outputs().begin();
    if (!id.valid() || position == static_cast<ptrdiff_t>(graph.outputs().size())) {
      test.AbsentOutput();
      expected.emplace_back();
      continue;
    }
    const ValueInfo& info = graph.value(id);
    LAMINA_ASSIGN_OR_RETURN(Value value,
                            ReadValueFile(folder + "/output_" + std::to_string(position) + ".pb", info.type));
    strings |= value.is_tensor() && value.tensor().type() == DataType::kString;
    test.OutputValue(value);
    expected.push_back(std::move(value));
  }
  if (strings || MayAllocate(node.op_type)) test.AllowAllocations();

  for (const OpTester::RunSetup setup : {OpTester::RunSetup{1, false}, OpTester::RunSetup{2, true}}) {
    LAMINA_ASSIGN_OR_RETURN(const std::vector<Value> outputs, test.Compute(setup));
    for (size_t i = 0; i < expected.size(); ++i) {
      if (!expected[i].defined()) continue;
      if (random_output && expected[i].is_tensor()) {
        if (!(expected[i].type() == outputs[i].type()) ||
            !(expected[i].tensor().shape() == outputs[i].tensor().shape())) {
          return InvalidArgumentError("type or shape differ");
        }
        continue;
      }
      LAMINA_RETURN_IF_ERROR(CompareValues(expected[i], outputs[i])
                                 .WithContext(fmt::format("output {} with {} threads", i, setup.threads)));
    }
  }
  return Status();
}

}  // namespace

bool IsSingleNode(const NodeCase& node_case) {
  const Result<std::unique_ptr<Model>> model = ReadModel(node_case.folder + "/model.onnx");
  if (!model.ok() || !(*model)->functions.empty()) return false;
  const Graph& graph = *(*model)->graph;
  return graph.num_alive_nodes() == 1 &&
         std::all_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const Node& node) { return !node.alive || node.Subgraphs().empty(); });
}

Status RunInOpTester(const NodeCase& node_case) {
  LAMINA_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, ReadModel(node_case.folder + "/model.onnx"));
  for (const Node& node : model->graph->nodes()) {
    if (!node.alive) continue;
    for (const std::string& folder : FindDataSets(node_case.folder)) {
      LAMINA_RETURN_IF_ERROR(RunDataSet(*model, node, folder, HasRandomOutput(node_case)));
    }
  }
  return Status();
}

}  // namespace lamina::testing
