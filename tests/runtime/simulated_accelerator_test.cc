// Sessions on the simulated accelerator: names of its devices, runs at the same time, failures of a device.
// That models give the same outputs wherever their nodes run is tested in device_run_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/data_set.h"
#include "support/sim_env.h"
#include "support/test_data.h"

namespace lamina {
namespace {

using ::testing::HasSubstr;
using testing::SimEnv;

constexpr int kMostLayers = 4;  // numbers that no layer has match nothing

std::string Zoo(const std::string& name) { return testing::SourcePath("tests/data/zoo/" + name); }

SessionOptions SimOptions(const std::string& rules, const std::string& devices = "2") {
  SessionOptions options;
  EXPECT_TRUE(options.AppendProvider("sim", {{"devices", devices}}).ok());
  EXPECT_TRUE(options.Set("session.name_based_layer_assignment", rules).ok());
  return options;
}

// --- Names of devices ---

TEST(SimDesignatorTest, RulesFindTheDevicesByEveryName) {
  const std::vector<std::pair<std::string, bool>> on_device_1 = {
      {"gpu:0", false}, {"gpu:1", true},        {"gpu", false}, {"gpu:sim", false},
      {"sim:1", true},  {"accelerator", false}, {"sim", false}, {"sim:0", false}};
  for (const auto& [designator, expected] : on_device_1) {
    SCOPED_TRACE(designator);
    SimEnv sim;
    const std::string rules = fmt::format("{}(layers.[0-{}])", designator, kMostLayers);
    const auto session = Session::Load(sim.env(), Zoo("llama-fp32") + "/model.onnx", SimOptions(rules));
    ASSERT_TRUE(session.ok()) << session.status().ToString();
    ASSERT_TRUE(CheckDataSet(**session, FindDataSets(Zoo("llama-fp32")).front()).ok());
    EXPECT_GT(sim.Counters(0).kernels, 0u);  // what no rule names
    EXPECT_EQ(sim.Counters(1).kernels > 0, expected);
  }
}

TEST(SimDesignatorTest, ADeviceThatIsNotThereIsNamedWithThoseThatAre) {
  SimEnv sim;
  const auto session =
      Session::Load(sim.env(), Zoo("llama-fp32") + "/model.onnx", SimOptions("sim:2(layers.0)"));
  ASSERT_FALSE(session.ok());
  EXPECT_EQ(session.status().code(), StatusCode::kNotFound) << session.status().ToString();
  EXPECT_THAT(session.status().message(), HasSubstr("sim:2"));
  EXPECT_THAT(session.status().message(), HasSubstr("gpu:1"));
}

// --- Concurrency ---

TEST(SimConcurrencyTest, RunsOfOneSessionShareItsDevices) {
  SimEnv sim;
  const auto session = Session::Load(sim.env(), Zoo("llama-fp32") + "/model.onnx",
                                     SimOptions("sim:0(layers.[0-0]); sim:1(layers.[1-4])"));
  ASSERT_TRUE(session.ok()) << session.status().ToString();
  const std::vector<std::string> sets = FindDataSets(Zoo("llama-fp32"));
  std::vector<std::thread> threads;
  std::vector<Status> outcomes(4);
  for (size_t i = 0; i < outcomes.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int run = 0; run < 3 && outcomes[i].ok(); ++run) {
        outcomes[i] = CheckDataSet(**session, sets[i % sets.size()]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.ok()) << outcome.ToString();
  EXPECT_EQ(sim.Counters(0).in_flight + sim.Counters(1).in_flight, 0u);
  EXPECT_EQ(sim.Counters(0).runs + sim.Counters(1).runs, 0u);
}

// --- Failures ---

class SimFailureTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<Session>> Load(const std::string& rules = "") {
    return Session::Load(sim_.env(), Zoo("llama-fp32") + "/model.onnx", SimOptions(rules));
  }
  static Status Check(Session& session) {
    return CheckDataSet(session, FindDataSets(Zoo("llama-fp32")).front());
  }
  void ExpectNothingIsLeft() { EXPECT_FALSE(sim_.ProviderLives()); }
  const std::string split_ = fmt::format("sim:0(layers.[0-0]); sim:1(layers.[1-{}])", kMostLayers);

  SimEnv sim_;
};

TEST_F(SimFailureTest, EveryAllocationOfALoadMayFail) {
  uint64_t allocations = 0;
  {
    const auto session = Load(split_);
    ASSERT_TRUE(session.ok()) << session.status().ToString();
    allocations = sim_.Counters(0).allocations;
  }
  ASSERT_GT(allocations, 0u);
  for (uint64_t nth = 1; nth <= allocations; ++nth) {
    SCOPED_TRACE(nth);
    sim_.OnCreate([nth](const SimEnv& sim) { sim.Inject(0, SIM_FAIL_ALLOCATION, nth); });
    const auto session = Load(split_);
    if (session.ok()) continue;  // an allocation that the load can do without
    EXPECT_EQ(session.status().code(), StatusCode::kResourceExhausted) << session.status().ToString();
    EXPECT_THAT(session.status().message(), HasSubstr("gpu:0"));
    EXPECT_THAT(session.status().message(), HasSubstr("fails on demand"));
    ExpectNothingIsLeft();
  }
}

TEST_F(SimFailureTest, AFailedCopyOfALoadIsItsError) {
  for (const uint64_t nth : {uint64_t{1}, uint64_t{2}}) {
    sim_.OnCreate([nth](const SimEnv& sim) { sim.Inject(0, SIM_FAIL_COPY, nth); });
    const auto session = Load();
    ASSERT_FALSE(session.ok());
    EXPECT_EQ(session.status().code(), StatusCode::kIo) << session.status().ToString();
    EXPECT_THAT(session.status().message(), HasSubstr("gpu:0"));
    EXPECT_THAT(session.status().message(), HasSubstr("the copy fails on demand"));
    ExpectNothingIsLeft();
  }
}

TEST_F(SimFailureTest, AFailedKernelNamesDeviceAndNodeAndTheSessionWorksOn) {
  const auto session = Load(split_);
  ASSERT_TRUE(session.ok()) << session.status().ToString();
  const uint64_t resident_bytes = sim_.Counters(1).resident_bytes;
  for (const uint64_t nth : {uint64_t{1}, uint64_t{5}}) {
    sim_.Inject(1, SIM_FAIL_KERNEL, nth);
    const Status status = Check(**session);
    EXPECT_EQ(status.code(), StatusCode::kInternal) << status.ToString();
    EXPECT_THAT(status.message(), HasSubstr("node '"));
    EXPECT_THAT(status.message(), HasSubstr("gpu:1"));
    EXPECT_THAT(status.message(), HasSubstr("fails on demand"));
    EXPECT_EQ(sim_.Counters(1).in_flight, 0u);
    EXPECT_EQ(sim_.Counters(1).runs, 0u);
    EXPECT_TRUE(Check(**session).ok());
  }
  EXPECT_LE(sim_.Counters(1).resident_bytes, resident_bytes + (1u << 20));
}

TEST_F(SimFailureTest, AFailedCopyOfARunIsItsErrorAndTheSessionWorksOn) {
  const auto session = Load(split_);
  ASSERT_TRUE(session.ok()) << session.status().ToString();
  for (const int32_t device : {0, 1}) {
    sim_.Inject(device, SIM_FAIL_COPY, 1);
    const Status status = Check(**session);
    EXPECT_EQ(status.code(), StatusCode::kIo) << status.ToString();
    // The copy that failed; it is found by whoever waits for it.
    EXPECT_THAT(status.message(), HasSubstr(fmt::format("sim:{}: the copy fails on demand", device)));
    EXPECT_TRUE(Check(**session).ok()) << "device " << device;
  }
}

TEST_F(SimFailureTest, ALostDeviceClosesItsSession) {
  {
    const auto session = Load(split_);
    ASSERT_TRUE(session.ok()) << session.status().ToString();
    sim_.Inject(1, SIM_LOSE_AT_KERNEL, 3);
    for (int run = 0; run < 2; ++run) {
      const Status status = Check(**session);
      EXPECT_EQ(status.code(), StatusCode::kDeviceLost) << status.ToString();
      EXPECT_THAT(status.message(), HasSubstr("sim:1 is lost"));
    }
  }
  ExpectNothingIsLeft();
}

TEST_F(SimFailureTest, AModelThatDoesNotFitIsRefusedWithTheShortage) {
  SessionOptions options;
  ASSERT_TRUE(options.AppendProvider("sim", {{"devices", "1"}, {"memory", "128KiB"}}).ok());
  ASSERT_TRUE(options.Set("session.gpu_layers", "all").ok());
  const auto session = Session::Load(sim_.env(), Zoo("llama-fp32") + "/model.onnx", options);
  ASSERT_FALSE(session.ok());
  EXPECT_EQ(session.status().code(), StatusCode::kResourceExhausted) << session.status().ToString();
  ASSERT_NE(session.status().memory_shortage(), nullptr);
  EXPECT_EQ(session.status().memory_shortage()->device, "gpu:0");
  ExpectNothingIsLeft();
}

TEST_F(SimFailureTest, AWrongOptionOfTheProviderFailsTheLoad) {
  SessionOptions options;
  ASSERT_TRUE(options.AppendProvider("sim", {{"colour", "red"}}).ok());
  const auto session = Session::Load(sim_.env(), Zoo("llama-fp32") + "/model.onnx", options);
  EXPECT_EQ(session.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(session.status().message(), HasSubstr("there is no option 'colour'"));
}

}  // namespace
}  // namespace lamina
