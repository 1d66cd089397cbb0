// A placement is fitted again where memory has gone between planning and the load.
#include "runtime/fit_rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "generate/engine.h"
#include "runtime/env_impl.h"
#include "runtime/session_impl.h"
#include "support/test_accelerator.h"
#include "support/test_data.h"

namespace lamina {
namespace {

using testing::AcceleratorLog;
using testing::AcceleratorOptions;
using ::testing::ElementsAre;

Status Shortage(const char* device, uint64_t needed_bytes, uint64_t available_bytes) {
  return Status::OutOfMemory(std::to_string(needed_bytes), {device, needed_bytes, available_bytes, {}});
}

std::vector<PlacementDevice> TwoDevices() {
  std::vector<PlacementDevice> devices(3);
  devices[0].description.device = {DeviceKind::kGpu, 0};
  devices[1].description.device = {DeviceKind::kGpu, 1};
  return devices;
}

TEST(FitRoundsTest, WithholdsWhatWasMissing) {
  const std::vector<PlacementDevice> devices = TwoDevices();
  FitRounds rounds{SessionConfig()};
  EXPECT_FALSE(rounds.TryAgain(Status(), devices));
  EXPECT_FALSE(rounds.TryAgain(InvalidArgumentError("x"), devices));
  EXPECT_TRUE(rounds.withheld_bytes().empty());
  ASSERT_TRUE(rounds.TryAgain(Shortage("gpu:1", 100, 70), devices));
  EXPECT_THAT(rounds.withheld_bytes(), ElementsAre(0, 30, 0));
  ASSERT_TRUE(rounds.TryAgain(Shortage("gpu:1", 80, 75), devices));
  EXPECT_THAT(rounds.withheld_bytes(), ElementsAre(0, 35, 0));
  EXPECT_FALSE(rounds.TryAgain(Shortage("gpu:1", 80, 75), devices));
  EXPECT_EQ(rounds.Outcome(Shortage("gpu:1", 80, 75)).message(), "100");
  EXPECT_TRUE(rounds.Outcome(Status()).ok());
  EXPECT_EQ(rounds.Outcome(InvalidArgumentError("x")).message(), "x");
}

TEST(FitRoundsTest, AFixedSplitIsFittedOnce) {
  SessionConfig config;
  config.gpu_layers = "all";
  FitRounds rounds(config);
  EXPECT_FALSE(rounds.TryAgain(Shortage("gpu:0", 100, 70), TwoDevices()));
}

class VanishingMemoryTest : public ::testing::Test {
 protected:
  VanishingMemoryTest() : env_(*Env::Create({1})) {
    AcceleratorOptions accelerator;
    accelerator.devices = 1;
    EXPECT_TRUE(env_->impl().RegisterProvider(MakeTestAccelerator(&log_, accelerator)).ok());
  }

  Result<std::unique_ptr<Engine>> Load(const std::string& gpu_layers = {}) {
    LAMINA_ASSIGN_OR_RETURN(const ModelFolder folder,
                            ModelFolder::Open(testing::SourcePath("tests/data/zoo/llama-int4-cpu")));
    EngineOptions options;
    options.context_length_tokens = 32;
    options.prefill_chunk_tokens = 8;
    if (!gpu_layers.empty()) {
      LAMINA_RETURN_IF_ERROR(options.session.Set("session.gpu_layers", gpu_layers));
    }
    return Engine::Create(env_, folder, options);
  }
  static uint64_t AllocatedBytes(const Engine& engine) {
    return engine.session().impl().plan()->devices[0].allocated_bytes;
  }

  AcceleratorLog log_;
  std::shared_ptr<Env> env_;
};

TEST_F(VanishingMemoryTest, LessIsPlacedThere) {
  const auto all = Load();
  ASSERT_TRUE(all.ok()) << all.status().ToString();
  const uint64_t needed_bytes = AllocatedBytes(**all);
  // Enough while the plan is made, one byte short when it is checked.
  log_.free_bytes = needed_bytes;
  log_.vanishing_bytes = 1;
  const auto fitted = Load();
  ASSERT_TRUE(fitted.ok()) << fitted.status().ToString();
  EXPECT_GT(AllocatedBytes(**fitted), 0u);
  EXPECT_LT(AllocatedBytes(**fitted), needed_bytes);
}

TEST_F(VanishingMemoryTest, AFixedSplitFailsWithTheMissingBytes) {
  const auto all = Load("all");
  ASSERT_TRUE(all.ok()) << all.status().ToString();
  log_.free_bytes = AllocatedBytes(**all);
  log_.vanishing_bytes = 1;
  log_.ClearCounts();
  const Status status = Load("all").status();
  ASSERT_NE(status.memory_shortage(), nullptr) << status.ToString();
  EXPECT_EQ(status.memory_shortage()->needed_bytes - status.memory_shortage()->available_bytes, 1u);
  EXPECT_EQ(log_.allocations, 0);
}

}  // namespace
}  // namespace lamina
