// Shape inference of nodes that do not make sense: every node test with inputs, shapes, attributes and
// operators changed at random. Whatever comes, inference ends with shapes or with a status.
#include <algorithm>
#include <filesystem>
#include <limits>
#include <random>

#include "gtest/gtest.h"
#include "model/onnx/model_reader.h"
#include "model/shape_inference/operator_registry.h"
#include "model/shape_inference/shape_inference.h"
#include "support/test_data.h"

namespace lamina {
namespace {

class Damager {
 public:
  explicit Damager(uint32_t seed) : random_(seed) {}

  void Damage(Graph& graph) {
    const size_t count = 1 + Below(3);
    for (size_t i = 0; i < count; ++i) DamageOnce(graph);
  }

 private:
  size_t Below(size_t end) { return random_() % end; }

  int64_t Integer() {
    static constexpr int64_t kInteresting[] = {0,
                                               1,
                                               -1,
                                               2,
                                               -2,
                                               3,
                                               -3,
                                               7,
                                               16,
                                               17,
                                               100,
                                               64,
                                               -100,
                                               int64_t{1} << 31,
                                               10,
                                               255,
                                               1000,
                                               2147483647,
                                               -2147483648,
                                               4294967296,
                                               std::numeric_limits<int64_t>::max(),
                                               std::numeric_limits<int64_t>::min(),
                                               std::numeric_limits<int64_t>::max() / 2};
    return kInteresting[Below(std::size(kInteresting))];
  }

  DimExpr Dim() {
    switch (Below(6)) {
      case 0:
        return DimExpr::Symbol("n");
      case 1:
        return DimExpr::Symbol("m") + Integer() % 100;
      case 2:
        return DimExpr::Unknown();
      default:
        return std::max<int64_t>(0, Integer());
    }
  }

  void DamageOnce(Graph& graph) {
    if (graph.nodes().empty()) return;
    const NodeId id{static_cast<int32_t>(Below(graph.nodes().size()))};
    Node& node = graph.mutable_node(id);
    switch (Below(8)) {
      case 0:
      case 1:
        ChangeShape(graph);
        break;
      case 2:
        ChangeType(graph);
        break;
      case 3:
      case 4:
        ChangeAttribute(node);
        break;
      case 5:
        if (!node.attributes.empty()) {
          node.attributes.erase(node.attributes.begin() +
                                static_cast<std::ptrdiff_t>(Below(node.attributes.size())));
        }
        break;
      case 6:
        ChangeInputs(graph, id);
        break;
      default:
        ChangeOperator(graph, node);
        break;
    }
    for (Graph* subgraph : node.Subgraphs()) {
      if (Below(2) == 0) DamageOnce(*subgraph);
    }
  }

  void ChangeShape(Graph& graph) {
    if (graph.inputs().empty()) return;
    ValueInfo& info = graph.mutable_value(graph.inputs()[Below(graph.inputs().size())]);
    if (Below(8) == 0 || !info.shape) {
      info.shape.reset();
    } else if (Below(2) == 0 && info.shape->rank() > 0) {
      info.shape->dims[Below(info.shape->dims.size())] = Dim();
    } else {
      info.shape->dims.resize(Below(7), Dim());
    }
  }

  void ChangeType(Graph& graph) {
    if (graph.inputs().empty()) return;
    ValueInfo& info = graph.mutable_value(graph.inputs()[Below(graph.inputs().size())]);
    if (Below(3) == 0) {
      info.type.kind = static_cast<ValueKind>(Below(6));
    } else {
      info.type.element = static_cast<DataType>(Below(27));
    }
  }

  void ChangeAttribute(Node& node) {
    if (node.attributes.empty()) return;
    AttributeValue& value = node.attributes[Below(node.attributes.size())].value;
    if (auto* integer = std::get_if<int64_t>(&value)) {
      *integer = Integer();
    } else if (auto* integers = std::get_if<std::vector<int64_t>>(&value)) {
      if (Below(3) == 0) integers->resize(Below(9), Integer());
      if (!integers->empty()) (*integers)[Below(integers->size())] = Integer();
    } else if (auto* text = std::get_if<std::string>(&value)) {
      *text = Below(2) == 0 ? "" : *text + ",->...";
    } else if (auto* number = std::get_if<float>(&value)) {
      *number = static_cast<float>(Integer());
    } else if (Below(4) == 0) {
      value = Integer();
    }
  }

  void ChangeInputs(Graph& graph, NodeId id) {
    Node& node = graph.mutable_node(id);
    if (!node.inputs.empty() && Below(3) != 0) {
      graph.SetInput(id, static_cast<int>(Below(node.inputs.size())), ValueId());
    } else if (!graph.inputs().empty() && !node.inputs.empty()) {
      graph.SetInput(id, static_cast<int>(Below(node.inputs.size())),
                     graph.inputs()[Below(graph.inputs().size())]);
    }
  }

  void ChangeOperator(Graph& graph, Node& node) {
    const std::span<const OperatorDef> all = AllOperators();
    const OperatorDef& def = all[Below(all.size())];
    node.op_type = graph.names().Intern(def.op_type);
    node.domain = graph.names().Intern(def.domain);
    node.since_version = Below(4) == 0 ? static_cast<int>(Below(30)) : def.since_version;
  }

  std::mt19937 random_;
};

// Runs `rounds` damaged copies of every node test.
void RunDamaged(int rounds) {
  const auto root = testing::NodeTestsPath();
  if (!root) GTEST_SKIP() << "no ONNX node tests; set LAMINA_TEST_DATA";
  std::vector<std::string> folders;
  for (const auto& entry : std::filesystem::directory_iterator(*root)) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  uint32_t seed = 1;
  int failed = 0;
  int inferred = 0;
  for (const std::string& folder : folders) {
    const std::string bytes = testing::ReadWholeFile(folder + "/model.onnx");
    for (int round = 0; round < rounds; ++round) {
      Result<std::unique_ptr<Model>> model =
          ReadModelFromBytes(std::as_bytes(std::span<const char>(bytes.data(), bytes.size())));
      ASSERT_TRUE(model.ok()) << model.status().ToString();
      SCOPED_TRACE(folder + " seed " + std::to_string(seed));
      Damager(seed++).Damage(*(*model)->graph);
      if (round % 2 == 0) (*model)->ir_version = 3;
      const Status status = InferShapes(**model);
      ++(status.ok() ? inferred : failed);
      if (!status.ok()) {
        EXPECT_EQ(status.code(), StatusCode::kInvalidModel) << status.ToString();
      }
    }
  }
  // The changes hit: both outcomes are common.
  EXPECT_GT(failed, rounds * 100);
  EXPECT_GT(inferred, rounds * 100);
}

TEST(DamagedNodes, InferenceEndsWithAStatus) { RunDamaged(3); }
TEST(DamagedNodes, InferenceEndsWithAStatusFull) { RunDamaged(200); }

}  // namespace
}  // namespace lamina
