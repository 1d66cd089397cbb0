// What holds for the plan of any graph under any budget, on graphs made at random: more budget never holds
// less, equal requests give equal plans, no run within the bounds asks a device for memory, and results are
// those of the CPU alone. Layouts are judged by the validator inside MakePlan.
#include <gtest/gtest.h>

#include <cstring>

#include "generate/engine.h"
#include "plan/device_spec.h"
#include "plan/plan_json.h"
#include "runtime/env_impl.h"
#include "runtime/plan_model.h"
#include "runtime/session_impl.h"
#include "support/random_data.h"
#include "support/random_graph.h"
#include "support/test_accelerator.h"
#include "support/test_data.h"

namespace lamina {
namespace {

constexpr int64_t kWidth = testing::kRandomGraphWidth;
constexpr int64_t kMaxRows = 24;

class RandomPlanTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  RandomPlanTest() : graph_(GetParam()), path_(folder_.File("model.onnx")) {
    EXPECT_TRUE(graph_.Write(path_).ok());
    testing::AcceleratorOptions accelerator;
    accelerator.devices = 1;
    EXPECT_TRUE(env_->impl().RegisterProvider(testing::MakeTestAccelerator(&log_, accelerator)).ok());
  }

  static Status Bound(SessionOptions& options, int64_t rows) {
    return options.Set("session.max_shape_override", "x:[" + std::to_string(rows) + ",16]");
  }
  Result<Plan> PlanFor(int64_t rows, const std::string& budget) const {
    PlanModelOptions options;
    LAMINA_RETURN_IF_ERROR(Bound(options.session, rows));
    LAMINA_RETURN_IF_ERROR(options.session.Set("session.device_memory_budget", budget));
    const std::vector<std::string> specs = {"gpu:0=memory=1GiB,granularity=512"};
    LAMINA_ASSIGN_OR_RETURN(options.described, ParseDeviceSpecs(specs));
    LAMINA_ASSIGN_OR_RETURN(const std::unique_ptr<ModelPlan> made, PlanModel(env_, path_, options));
    return made->planned.plan;
  }
  static Result<std::vector<Value>> RunOn(Session& session, int64_t rows, uint32_t seed) {
    const std::vector<float> numbers = testing::RandomNumbers(rows * kWidth, seed);
    const std::vector<Value> inputs{
        *Tensor::FromValues<float>(DataType::kFloat, Shape{rows, kWidth}, numbers)};
    std::vector<Value> outputs;
    LAMINA_RETURN_IF_ERROR(session.Run({}, inputs, &outputs));
    return outputs;
  }

  testing::AcceleratorLog log_;
  testing::RandomGraph graph_;
  testing::TempDir folder_;
  std::string path_;
  std::shared_ptr<Env> env_ = *Env::Create({1});
};

TEST_P(RandomPlanTest, PlansAreMonotoneAndDeterministic) {
  uint64_t resident_bytes = 0;
  for (uint64_t budget_bytes = 0; budget_bytes <= 16384; budget_bytes += 1024) {
    const auto plan = PlanFor(kMaxRows, std::to_string(budget_bytes));
    ASSERT_TRUE(plan.ok()) << plan.status().ToString();
    ASSERT_TRUE(plan->planned) << plan->not_planned_because;
    EXPECT_LE(plan->devices[0].allocated_bytes, budget_bytes);
    EXPECT_GE(plan->resident_bytes(), resident_bytes) << budget_bytes;
    resident_bytes = plan->resident_bytes();
    EXPECT_EQ(PlanAsJson(*plan), PlanAsJson(*PlanFor(kMaxRows, std::to_string(budget_bytes))));
  }
  // Larger bounds never need less.
  uint64_t needed_bytes = 0;
  for (const int64_t rows : {int64_t{1}, int64_t{5}, kMaxRows}) {
    const auto plan = PlanFor(rows, "1GiB");
    ASSERT_TRUE(plan.ok()) << plan.status().ToString();
    EXPECT_GE(plan->devices[0].allocated_bytes, needed_bytes);
    needed_bytes = plan->devices[0].allocated_bytes;
  }
}

TEST_P(RandomPlanTest, NoRunWithinTheBoundsAsksForMemory) {
  SessionOptions cpu;
  ASSERT_TRUE(cpu.AppendProvider("cpu").ok());
  const auto reference = Session::Load(env_, path_, cpu);
  ASSERT_TRUE(reference.ok()) << reference.status().ToString();
  for (int i = 0; i < 4; ++i) {
    SessionOptions options;
    ASSERT_TRUE(Bound(options, kMaxRows).ok());
    const std::string budget = std::to_string(graph_.Below(16384));
    ASSERT_TRUE(options.Set("session.device_memory_budget", budget).ok());
    ASSERT_TRUE(options.Set("session.pre_allocate_execution_buffers", "1").ok());
    const auto session = Session::Load(env_, path_, options);
    ASSERT_TRUE(session.ok()) << budget << ": " << session.status().ToString();
    const Plan& plan = *(*session)->impl().plan();
    ASSERT_TRUE(plan.planned);
    const int64_t allocations = log_.allocations;
    for (int run = 0; run < 6; ++run) {
      const int64_t rows = run == 0 ? kMaxRows : 1 + graph_.Below(static_cast<int>(kMaxRows));
      const auto expected = RunOn(**reference, rows, static_cast<uint32_t>(run));
      const auto found = RunOn(**session, rows, static_cast<uint32_t>(run));
      ASSERT_TRUE(expected.ok()) << expected.status().ToString();
      ASSERT_TRUE(found.ok()) << found.status().ToString();
      for (size_t output = 0; output < expected->size(); ++output) {
        const Tensor& want = (*expected)[output].tensor();
        const Tensor& have = (*found)[output].tensor();
        ASSERT_EQ(want.shape(), have.shape());
        EXPECT_EQ(std::memcmp(want.raw_data(), have.raw_data(), want.size_bytes()), 0)
            << budget << " " << rows;
      }
    }
    EXPECT_EQ(log_.allocations, allocations) << budget;
    EXPECT_EQ(RunOn(**session, kMaxRows + 1, 1).status().code(), StatusCode::kInvalidArgument);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPlanTest, ::testing::Range(uint32_t{1}, uint32_t{25}));

}  // namespace
}  // namespace lamina
