// Plans of the models in the repository, for described devices.
#include "plan/make_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/byte_size.h"
#include "generate/engine.h"
#include "plan/device_spec.h"
#include "plan/plan_json.h"
#include "plan/plan_report.h"
#include "runtime/plan_model.h"
#include "support/test_data.h"

namespace lamina {
namespace {

using ::testing::HasSubstr;
using testing::SourcePath;

std::vector<std::string> ModelFolders() {
  std::vector<std::string> folders;
  for (const auto& entry : std::filesystem::directory_iterator(SourcePath("tests/data/zoo"))) {
    folders.push_back(entry.path().string());
  }
  folders.push_back(SourcePath("models/tales"));
  std::sort(folders.begin(), folders.end());
  return folders;
}

const std::shared_ptr<Env>& TestEnv() {
  static const std::shared_ptr<Env> env = *Env::Create({1});
  return env;
}

struct Asked {
  std::vector<std::string> devices;
  std::string budget;
  std::string gpu_layers;
  int64_t context_tokens = 0;
  int max_batch = 1;
  int frames = 1;
};

Result<std::unique_ptr<ModelPlan>> PlanOf(const std::string& folder_path, const Asked& asked) {
  LAMINA_ASSIGN_OR_RETURN(const ModelFolder folder, ModelFolder::Open(folder_path));
  EngineOptions engine;
  engine.context_length_tokens = asked.context_tokens;
  engine.max_sequences = asked.max_batch;
  PlanModelOptions options;
  LAMINA_ASSIGN_OR_RETURN(options.session, SessionOptionsOf(engine, folder));
  LAMINA_RETURN_IF_ERROR(options.session.Set("session.max_concurrent_runs", std::to_string(asked.frames)));
  if (!asked.budget.empty()) {
    LAMINA_RETURN_IF_ERROR(options.session.Set("session.device_memory_budget", asked.budget));
  }
  if (!asked.gpu_layers.empty()) {
    LAMINA_RETURN_IF_ERROR(options.session.Set("session.gpu_layers", asked.gpu_layers));
  }
  options.load.decoder_names = folder.decoder_names;
  LAMINA_ASSIGN_OR_RETURN(options.described, ParseDeviceSpecs(asked.devices));
  return PlanModel(TestEnv(), folder.model_path, options);
}

// A device whose granularity is small beside the test models.
const std::string kSmallGranules = "gpu:0=memory=1GiB,granularity=4KiB";

class ModelPlanTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ModelPlanTest, FramesAreAsSmallAsTheirLowerBound) {
  for (const std::vector<std::string>& devices :
       {std::vector<std::string>{}, std::vector<std::string>{kSmallGranules}}) {
    for (const int64_t context : {64, 1024}) {
      const auto made = PlanOf(GetParam(), {devices, "", "", context, 2});
      ASSERT_TRUE(made.ok()) << made.status().ToString();
      const Plan& plan = (*made)->planned.plan;
      ASSERT_TRUE(plan.planned) << plan.not_planned_because;
      EXPECT_EQ(plan.offsets.size(), 2 * plan.devices.size());
      for (const Plan::PhaseLayout& layout : plan.offsets) {
        EXPECT_EQ(layout.peak_bytes, layout.lower_bound_bytes) << layout.device << " " << layout.phase;
      }
    }
  }
}

TEST_P(ModelPlanTest, RowsAddUp) {
  const auto made = PlanOf(GetParam(), {{kSmallGranules}, "300KiB", "", 256, 1, 2});
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  const Plan& plan = (*made)->planned.plan;
  ASSERT_EQ(plan.devices.size(), 2U);
  for (const Plan::DeviceMemory& device : plan.devices) {
    EXPECT_EQ(device.total_bytes, device.weights_bytes + device.kv_cache_bytes + device.execution_bytes);
    EXPECT_EQ(device.execution_bytes,
              device.activations_bytes + device.workspace_bytes + device.staging_bytes);
    EXPECT_EQ(device.allocated_bytes % device.granularity_bytes, 0U);
  }
  EXPECT_EQ(plan.devices[0].name, "gpu:0");
  EXPECT_EQ(plan.devices[1].name, "cpu");
  EXPECT_LE(plan.devices[0].allocated_bytes, 300 * kKiB);
  EXPECT_GE(plan.devices[0].allocated_bytes, plan.devices[0].total_bytes);
  EXPECT_EQ(plan.devices[1].total_bytes, plan.devices[1].mapped_bytes + plan.devices[1].private_bytes);
}

TEST_P(ModelPlanTest, MoreBudgetNeverHoldsLess) {
  const auto all = PlanOf(GetParam(), {{kSmallGranules}, "", "all", 256});
  ASSERT_TRUE(all.ok()) << all.status().ToString();
  const uint64_t needed_bytes = (*all)->planned.plan.devices[0].allocated_bytes;
  uint64_t before_bytes = 0;
  for (int step = 0; step <= 16; ++step) {
    const uint64_t budget_bytes = needed_bytes * static_cast<uint64_t>(step) / 16;
    const auto made = PlanOf(GetParam(), {{kSmallGranules}, std::to_string(budget_bytes), "", 256});
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    const Plan& plan = (*made)->planned.plan;
    EXPECT_LE(plan.devices[0].allocated_bytes, budget_bytes);
    EXPECT_GE(plan.resident_bytes(), before_bytes);
    before_bytes = plan.resident_bytes();
    if (step == 16) {
      EXPECT_FALSE(plan.unplaced.has_value());
      EXPECT_EQ(plan.devices[0].allocated_bytes, needed_bytes);
    } else {
      ASSERT_TRUE(plan.unplaced.has_value()) << step;
      EXPECT_LT(budget_bytes - plan.devices[0].allocated_bytes, plan.unplaced->bytes);
    }
  }
}

TEST_P(ModelPlanTest, OneGranuleLessIsAnError) {
  const auto all = PlanOf(GetParam(), {{kSmallGranules}, "", "all", 256});
  ASSERT_TRUE(all.ok()) << all.status().ToString();
  const uint64_t needed_bytes = (*all)->planned.plan.devices[0].allocated_bytes;
  const auto exact = PlanOf(GetParam(), {{kSmallGranules}, std::to_string(needed_bytes), "all", 256});
  EXPECT_TRUE(exact.ok()) << exact.status().ToString();
  const uint64_t less_bytes = needed_bytes - 4 * kKiB;
  const auto less = PlanOf(GetParam(), {{kSmallGranules}, std::to_string(less_bytes), "all", 256});
  ASSERT_EQ(less.status().code(), StatusCode::kResourceExhausted) << less.status().ToString();
  const MemoryShortage* shortage = less.status().memory_shortage();
  ASSERT_NE(shortage, nullptr);
  EXPECT_EQ(shortage->device, "gpu:0");
  EXPECT_EQ(shortage->needed_bytes, needed_bytes);
  EXPECT_EQ(shortage->available_bytes, less_bytes);
  EXPECT_FALSE(shortage->largest_contributors.empty());
}

TEST_P(ModelPlanTest, EqualPlansAreEqualToTheByte) {
  const Asked asked{{kSmallGranules}, "40%", "", 256};
  const auto first = PlanOf(GetParam(), asked);
  const auto second = PlanOf(GetParam(), asked);
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_EQ(PlanAsJson((*first)->planned.plan), PlanAsJson((*second)->planned.plan));
}

INSTANTIATE_TEST_SUITE_P(Models, ModelPlanTest, ::testing::ValuesIn(ModelFolders()), [](const auto& param) {
  std::string name = std::filesystem::path(param.param).filename().string();
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
});

const std::string kLlama = "tests/data/zoo/llama-fp32";

TEST(MakePlanTest, ABudgetForNothingNamesTheSmallestUsefulOne) {
  const auto none = PlanOf(SourcePath(kLlama), {{kSmallGranules}, "4KiB", "", 256});
  ASSERT_TRUE(none.ok()) << none.status().ToString();
  const Plan& plan = (*none)->planned.plan;
  EXPECT_EQ(plan.resident_bytes(), 0U);
  EXPECT_EQ(plan.devices[0].allocated_bytes, 0U);
  ASSERT_TRUE(plan.smallest_useful_budget_bytes.has_value());
  const uint64_t useful_bytes = *plan.smallest_useful_budget_bytes;
  const auto some = PlanOf(SourcePath(kLlama), {{kSmallGranules}, std::to_string(useful_bytes), "", 256});
  EXPECT_GT((*some)->planned.plan.resident_bytes(), 0U);
  const auto still_none =
      PlanOf(SourcePath(kLlama), {{kSmallGranules}, std::to_string(useful_bytes - 1), "", 256});
  EXPECT_EQ((*still_none)->planned.plan.resident_bytes(), 0U);
}

TEST(MakePlanTest, GpuLayersCountFromTheEnd) {
  const auto two = PlanOf(SourcePath(kLlama), {{kSmallGranules}, "", "1", 256});
  ASSERT_TRUE(two.ok()) << two.status().ToString();
  const std::vector<Plan::Layer>& layers = (*two)->planned.plan.layers;
  ASSERT_GE(layers.size(), 4U);
  EXPECT_EQ(layers.front().device, "cpu");
  EXPECT_EQ(layers[layers.size() - 3].device, "cpu");
  EXPECT_THAT(layers[layers.size() - 2].device, HasSubstr("gpu:0"));
  EXPECT_EQ(layers.back().device, "cpu");
  EXPECT_THAT(PlanOf(SourcePath(kLlama), {{kSmallGranules}, "", "some", 256}).status().message(),
              HasSubstr("session.gpu_layers: expected a number of layers or 'all'"));
}

TEST(MakePlanTest, TwoDevicesShareAModel) {
  const std::vector<std::string> devices = {kSmallGranules, "gpu:1=memory=1GiB,granularity=4KiB"};
  const auto all = PlanOf(SourcePath(kLlama), {{kSmallGranules}, "", "all", 256});
  ASSERT_TRUE(all.ok());
  const uint64_t half_bytes = (*all)->planned.plan.devices[0].allocated_bytes * 3 / 4;
  const auto made = PlanOf(SourcePath(kLlama), {devices, std::to_string(half_bytes), "", 256});
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  const Plan& plan = (*made)->planned.plan;
  ASSERT_EQ(plan.devices.size(), 3U);
  EXPECT_GT(plan.devices[0].weights_bytes, 0U);
  EXPECT_GT(plan.devices[1].weights_bytes, 0U);
  EXPECT_FALSE(plan.unplaced.has_value());
  EXPECT_FALSE(plan.cut_edges.empty());
}

TEST(MakePlanTest, BudgetsAreChecked) {
  const auto error = [](const std::string& budget) {
    return PlanOf(SourcePath(kLlama), {{kSmallGranules}, budget, "", 256}).status().message();
  };
  EXPECT_THAT(error("gpu:1=1GiB"), HasSubstr("no device answers to 'gpu:1'"));
  EXPECT_THAT(error("cpu=1GiB"), HasSubstr("the memory of the CPU has no budget"));
  EXPECT_THAT(error("1GB;gpu:0=110%"), HasSubstr("110%"));
}

}  // namespace
}  // namespace lamina
