// Runs of arena sessions whose input shapes come again: outputs stay what they are without patterns, and no
// device is asked for memory.
#include "runtime/run_pattern.h"

#include <gtest/gtest.h>

#include <cstring>

#include "runtime/env_impl.h"
#include "runtime/session_impl.h"
#include "support/random_data.h"
#include "support/random_graph.h"
#include "support/test_accelerator.h"
#include "support/test_data.h"

namespace lamina {
namespace {

constexpr int64_t kWidth = testing::kRandomGraphWidth;

class RunPatternTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  RunPatternTest() : graph_(GetParam()), path_(folder_.File("model.onnx")) {
    EXPECT_TRUE(graph_.Write(path_).ok());
    testing::AcceleratorOptions accelerator;
    accelerator.devices = 1;
    EXPECT_TRUE(env_->impl().RegisterProvider(testing::MakeTestAccelerator(&log_, accelerator)).ok());
  }

  std::unique_ptr<Session> Load(const std::string& provider, const std::string& enable_mem_pattern) {
    SessionOptions options;
    EXPECT_TRUE(options.AppendProvider(provider).ok());
    EXPECT_TRUE(options.Set("session.enable_mem_pattern", enable_mem_pattern).ok());
    auto session = Session::Load(env_, path_, options);
    EXPECT_TRUE(session.ok()) << session.status().ToString();
    return session.ok() ? *std::move(session) : nullptr;
  }
  // Outputs of a run; the first is written to `bound` where that is defined.
  static Result<std::vector<Value>> RunOn(Session& session, int64_t rows, uint32_t seed, Tensor bound = {}) {
    const std::vector<float> numbers = testing::RandomNumbers(rows * kWidth, seed);
    RunBinding binding;
    binding.BindInput(0, Value(*Tensor::FromValues<float>(DataType::kFloat, Shape{rows, kWidth}, numbers)));
    if (bound.defined()) binding.BindOutput(0, std::move(bound));
    LAMINA_RETURN_IF_ERROR(session.Run({}, binding));
    return binding.outputs();
  }
  static void ExpectEqual(const std::vector<Value>& want, const std::vector<Value>& have) {
    ASSERT_EQ(want.size(), have.size());
    for (size_t i = 0; i < want.size(); ++i) {
      const Tensor& a = want[i].tensor();
      const Tensor& b = have[i].tensor();
      ASSERT_EQ(a.shape(), b.shape());
      EXPECT_EQ(std::memcmp(a.raw_data(), b.raw_data(), a.size_bytes()), 0) << "output " << i;
    }
  }

  testing::AcceleratorLog log_;
  testing::RandomGraph graph_;
  testing::TempDir folder_;
  std::string path_;
  std::shared_ptr<Env> env_ = *Env::Create({1});
};

TEST_P(RunPatternTest, ReplayedRunsGiveTheSame) {
  const std::unique_ptr<Session> plain = Load("cpu", "0");
  for (const char* provider : {"cpu", "test"}) {
    const std::unique_ptr<Session> session = Load(provider, "1");
    std::vector<Value> kept;  // results outlive later runs
    std::vector<Value> kept_want;
    int64_t allocations = 0;
    for (uint32_t run = 0; run < 8; ++run) {
      const int64_t rows = run % 2 == 0 ? 3 : 20;
      const auto want = RunOn(*plain, rows, run);
      ASSERT_TRUE(want.ok()) << want.status().ToString();
      Tensor bound;
      if (run == 5) bound = *Tensor::Allocate(DataType::kFloat, Shape{rows, kWidth});
      const auto have = RunOn(*session, rows, run, bound);
      ASSERT_TRUE(have.ok()) << have.status().ToString();
      ExpectEqual(*want, *have);
      kept.insert(kept.end(), have->begin(), have->end());
      kept_want.insert(kept_want.end(), want->begin(), want->end());
      // Both shapes were seen, traced and run in their blocks.
      if (run == 5) allocations = log_.allocations;
    }
    EXPECT_EQ(log_.allocations, allocations);
    ExpectEqual(kept_want, kept);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RunPatternTest, ::testing::Range(uint32_t{1}, uint32_t{33}));

TEST(CanUsePatternsTest, ShapesMustFollowFromTheInputs) {
  Model model;
  model.names = std::make_shared<NamePool>();
  model.graph = std::make_unique<Graph>(model.names, nullptr);
  Graph& graph = *model.graph;
  const auto value = [&](const char* name, const char* dim) {
    SymbolicShape shape;
    shape.dims = {DimExpr::FromDimParam(dim)};
    return graph.MakeValue(name, ValueType::Tensor(DataType::kFloat), shape);
  };
  const ValueId x = value("x", "n");
  graph.AddInput(x);
  graph.AddNode("double", "Concat", "", 21, {x, x}, {value("y", "2*n")});
  EXPECT_TRUE(CanUsePatterns(graph));
  graph.AddNode("found", "NonZero", "", 21, {x}, {value("z", "found")});
  EXPECT_FALSE(CanUsePatterns(graph));
}

}  // namespace
}  // namespace lamina
