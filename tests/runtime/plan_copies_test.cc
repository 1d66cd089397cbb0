// A session over several devices makes exactly the copies that its plan prints, by count and bytes.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "generate/engine.h"
#include "model/onnx/model_reader.h"
#include "placement/layers.h"
#include "plan/plan_json.h"
#include "runtime/data_set.h"
#include "runtime/plan_model.h"
#include "runtime/session_impl.h"
#include "support/sim_env.h"
#include "support/test_data.h"

namespace lamina {
namespace {

constexpr int kContextTokens = 48;
constexpr int kChunkTokens = 8;

struct Copies {
  uint64_t count = 0;
  uint64_t bytes = 0;
  friend bool operator==(const Copies& a, const Copies& b) {
    return a.count == b.count && a.bytes == b.bytes;
  }
  friend void PrintTo(const Copies& copies, std::ostream* out) {
    *out << copies.count << " copies, " << copies.bytes << " bytes";
  }
};

// How the layers of a model are spread; layers as LayerAssignment counts them.
struct Split {
  std::string name;
  std::function<std::string(int layer)> device_of;
};

std::vector<Split> SplitsOf(int num_layers) {
  std::vector<Split> splits;
  splits.push_back({"all on gpu:0", [](int) { return "gpu:0"; }});
  splits.push_back({"alternating", [](int layer) {
                      const char* const devices[] = {"gpu:0", "gpu:1", "cpu"};
                      return devices[static_cast<size_t>(layer + 1) % 3];
                    }});
  for (int last = LayerAssignment::kEmbedding; last < num_layers; ++last) {
    splits.push_back({"after layer " + std::to_string(last),
                      [last](int layer) { return layer <= last ? "gpu:0" : "cpu"; }});
  }
  return splits;
}

// One rule for each node that a rule can name.
std::string RulesOf(const Graph& graph, const LayerAssignment& layers, const Split& split) {
  std::string rules;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const NodeId id{static_cast<int32_t>(i)};
    const std::string name = graph.node(id).name.str();
    if (!graph.node(id).alive || name.empty() || name.find_first_of("[]();,=") != std::string::npos) continue;
    rules += split.device_of(layers.OfNode(id)) + "(" + name + ");";
  }
  return rules;
}

class PlanCopiesTest : public ::testing::TestWithParam<std::string> {
 protected:
  Copies CopiesSoFar() const {
    Copies copies;
    for (int32_t device = 0; device < 2; ++device) {
      const SimCounters counters = sim_.Counters(device);
      copies.count += counters.copies_from_host + counters.copies_to_host + counters.copies_between_devices;
      copies.bytes += counters.bytes_from_host + counters.bytes_to_host + counters.bytes_between_devices;
    }
    return copies;
  }
  static Copies PrintedIn(const Plan& plan) {
    Copies copies;
    for (const Plan::CutEdge& edge : plan.cut_edges) {
      ++copies.count;
      copies.bytes += edge.bytes_per_step;
    }
    return copies;
  }
  Result<std::unique_ptr<Engine>> MakeEngine(const SessionOptions& session) {
    LAMINA_ASSIGN_OR_RETURN(const ModelFolder model, ModelFolder::Open(GetParam()));
    EngineOptions options;
    options.session = session;
    options.context_length_tokens = kContextTokens;
    options.prefill_chunk_tokens = kChunkTokens;
    return Engine::Create(sim_.env(), model, options);
  }

  testing::SimEnv sim_;
};

// The plan prints a decode step at its largest: the last token of the context.
TEST_P(PlanCopiesTest, TheLastStepOfAContextIsWhatThePlanPrints) {
  const auto model = ReadModel(GetParam() + "/model.onnx");
  ASSERT_TRUE(model.ok());
  const Graph& graph = *(*model)->graph;
  const LayerAssignment layers = *AssignLayers(graph);
  for (const Split& split : SplitsOf(layers.count())) {
    SCOPED_TRACE(split.name);
    SessionOptions options;
    ASSERT_TRUE(options.Set("session.name_based_layer_assignment", RulesOf(graph, layers, split)).ok());
    const auto engine = MakeEngine(options);
    ASSERT_TRUE(engine.ok()) << engine.status().ToString();
    const SequenceId sequence = *(*engine)->AddSequence();
    const std::vector<int32_t> tokens(kContextTokens, 5);
    const auto step = [&](int first, int count) {
      const SequenceStep row{
          sequence, std::span(tokens).subspan(static_cast<size_t>(first), static_cast<size_t>(count)), true};
      const Status status = (*engine)->Step({&row, 1});
      ASSERT_TRUE(status.ok()) << status.ToString();
    };
    int past = 0;
    for (; past < kContextTokens - 1; past += std::min(kChunkTokens, kContextTokens - 1 - past)) {
      step(past, std::min(kChunkTokens, kContextTokens - 1 - past));
    }
    const Copies before = CopiesSoFar();
    step(past, 1);
    const Copies after = CopiesSoFar();
    const Copies made{after.count - before.count, after.bytes - before.bytes};
    EXPECT_EQ(made, PrintedIn(*(*engine)->session().impl().plan()));
  }
}

// What `lamina plan` prints is what a session with the same options has.
TEST_P(PlanCopiesTest, TheSessionHasThePlanThatIsPrinted) {
  SessionOptions options;
  ASSERT_TRUE(
      options.Set("session.name_based_layer_assignment", "gpu:0(layers.0/); cpu(layers.1/); gpu:1(layers.2/)")
          .ok());
  PlanModelOptions plan_options;
  plan_options.session = options;
  const auto printed = PlanModel(sim_.env(), GetParam() + "/model.onnx", plan_options);
  ASSERT_TRUE(printed.ok()) << printed.status().ToString();
  const auto session = Session::Load(sim_.env(), GetParam() + "/model.onnx", options);
  ASSERT_TRUE(session.ok()) << session.status().ToString();
  EXPECT_EQ(PlanAsJson(*(*session)->impl().plan()), PlanAsJson((*printed)->planned.plan));
}

INSTANTIATE_TEST_SUITE_P(Zoo, PlanCopiesTest,
                         ::testing::ValuesIn(FindFoldersWithDataSets(testing::SourcePath("tests/data/zoo"))),
                         [](const auto& test) {
                           std::string name = std::filesystem::path(test.param).filename().string();
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace lamina
