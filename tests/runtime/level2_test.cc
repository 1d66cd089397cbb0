// Sessions make level-2 rewrites where nodes were placed.
#include <gtest/gtest.h>

#include <string>

#include "runtime/data_set.h"
#include "runtime/session_impl.h"
#include "support/sim_env.h"
#include "support/test_data.h"

namespace lamina {
namespace {

const std::string& Model() {
  static const std::string folder = testing::SourcePath("tests/data/zoo/qwen2-torch-script");
  return folder;
}

// Nodes whose name contains `layer`.
int CountNodes(const Session& session, std::string_view op_type, const std::string& layer) {
  int count = 0;
  for (const Node& node : session.impl().model().graph->nodes()) {
    const bool is_there = node.alive && node.op_type == op_type;
    count += is_there && node.name.str().find(layer) != std::string::npos ? 1 : 0;
  }
  return count;
}

void ExpectPasses(Session& session) {
  for (const std::string& set : FindDataSets(Model())) {
    const Status status = CheckDataSet(session, set);
    EXPECT_TRUE(status.ok()) << set << ": " << status.message();
  }
}

TEST(Level2SessionTest, AHostSessionUsesTheOperatorsOfTheCpu) {
  const auto session = Session::Load(*Env::Create({2}), Model() + "/model.onnx");
  ASSERT_TRUE(session.ok()) << session.status().message();
  EXPECT_GT(CountNodes(**session, "MatMulAdd", ""), 0);
  ExpectPasses(**session);
  SessionOptions options;
  ASSERT_TRUE(options.Set("session.disabled_rewrites", "level2").ok());
  const auto plain = Session::Load(*Env::Create({2}), Model() + "/model.onnx", options);
  ASSERT_TRUE(plain.ok()) << plain.status().message();
  EXPECT_EQ(CountNodes(**plain, "MatMulAdd", ""), 0);
}

TEST(Level2SessionTest, NodesOfAnotherDeviceStayAsTheyAre) {
  testing::SimEnv sim;
  SessionOptions options;
  ASSERT_TRUE(options.AppendProvider("sim", {{"devices", "1"}}).ok());
  ASSERT_TRUE(options.Set("session.name_based_layer_assignment", "sim:0(layers.0/); cpu(layers.1/)").ok());
  const auto session = Session::Load(sim.env(), Model() + "/model.onnx", options);
  ASSERT_TRUE(session.ok()) << session.status().ToString();
  EXPECT_EQ(CountNodes(**session, "MatMulAdd", "layers.0/"), 0);
  EXPECT_GT(CountNodes(**session, "MatMulAdd", "layers.1/"), 0);
  EXPECT_GT(sim.Counters(0).kernels, 0u);
  ExpectPasses(**session);
}

}  // namespace
}  // namespace lamina
