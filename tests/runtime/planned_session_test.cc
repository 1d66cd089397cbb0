// Sessions do what their plan says: on the simulated accelerator the bytes that are counted are the plan's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "../examples/simulated_accelerator/simulated_accelerator.h"
#include "generate/engine.h"
#include "providers/plugin/plugin_provider.h"
#include "runtime/env_impl.h"
#include "runtime/session_impl.h"
#include "support/allocation_counter.h"
#include "support/test_accelerator.h"
#include "support/test_data.h"

namespace lamina {
namespace {

using ::testing::HasSubstr;
using testing::SourcePath;

constexpr uint64_t kGranularityBytes = 4096;

std::vector<std::string> ZooFolders() {
  std::vector<std::string> folders;
  for (const auto& entry : std::filesystem::directory_iterator(SourcePath("tests/data/zoo"))) {
    folders.push_back(entry.path().string());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

std::string NameOfFolder(const ::testing::TestParamInfo<std::string>& param) {
  std::string name = std::filesystem::path(param.param).filename().string();
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
}

struct Asked {
  std::string budget;
  std::string gpu_layers;
  uint64_t memory_bytes = uint64_t{256} << 20;
  int64_t context_tokens = 128;
};

class PlannedSessionTest : public ::testing::TestWithParam<std::string> {
 protected:
  PlannedSessionTest() : env_(*Env::Create({1})) {
    const Status status =
        env_->RegisterProviderLibrary("", std::string(LAMINA_BINARY_DIR) + "/libsimulated_accelerator.so");
    EXPECT_TRUE(status.ok()) << status.ToString();
  }

  Result<std::unique_ptr<Engine>> Load(const std::string& path, const Asked& asked) {
    LAMINA_ASSIGN_OR_RETURN(const ModelFolder folder, ModelFolder::Open(path));
    EngineOptions options;
    options.context_length_tokens = asked.context_tokens;
    options.prefill_chunk_tokens = 32;
    const auto set = [&](const char* key, const std::string& value) {
      return value.empty() ? Status() : options.session.Set(key, value);
    };
    LAMINA_RETURN_IF_ERROR(set("ep.sim.devices", "1"));
    LAMINA_RETURN_IF_ERROR(set("ep.sim.granularity", std::to_string(kGranularityBytes)));
    LAMINA_RETURN_IF_ERROR(set("ep.sim.memory", std::to_string(asked.memory_bytes)));
    LAMINA_RETURN_IF_ERROR(set("session.device_memory_budget", asked.budget));
    LAMINA_RETURN_IF_ERROR(set("session.gpu_layers", asked.gpu_layers));
    return Engine::Create(env_, folder, options);
  }

  static const SimControl* ControlOf(const Session& session) {
    ExecutionProvider& provider = *session.impl().devices().front().provider;
    return static_cast<const SimControl*>(
        static_cast<plugin::PluginProvider&>(provider).Extension(SIM_CONTROL_EXTENSION));
  }
  static SimCounters CountersOf(const Session& session) {
    SimCounters counters;
    const SimControl* control = ControlOf(session);
    control->GetCounters(control->self, 0, &counters);
    return counters;
  }

  static void Generate(Engine& engine, int tokens) {
    const Result<SequenceId> sequence = engine.AddSequence();
    ASSERT_TRUE(sequence.ok());
    std::vector<int32_t> prompt = {1, 2, 3, 4, 5};
    for (int i = 0; i < tokens; ++i) {
      const SequenceStep row{*sequence, prompt, true};
      const Status status = engine.Step({&row, 1});
      ASSERT_TRUE(status.ok()) << status.ToString();
      prompt = {7};
    }
    engine.RemoveSequence(*sequence);
  }

  std::shared_ptr<Env> env_;
};

TEST_P(PlannedSessionTest, AllocatesWhatThePlanSays) {
  for (const int64_t context_tokens : {16, 100, 128}) {
    Asked asked{"", "all"};
    asked.context_tokens = context_tokens;
    const auto all = Load(GetParam(), asked);
    ASSERT_TRUE(all.ok()) << all.status().ToString();
    const uint64_t needed_bytes = (*all)->session().impl().plan()->devices[0].allocated_bytes;
    for (const int eighths : {0, 3, 5, 7, 8}) {
      asked.budget = std::to_string(needed_bytes * static_cast<uint64_t>(eighths) / 8);
      asked.gpu_layers.clear();
      const auto engine = Load(GetParam(), asked);
      ASSERT_TRUE(engine.ok()) << engine.status().ToString();
      const Session& session = (*engine)->session();
      const Plan& plan = *session.impl().plan();
      ASSERT_TRUE(plan.planned) << plan.not_planned_because;
      EXPECT_EQ(CountersOf(session).resident_bytes, plan.devices[0].allocated_bytes) << asked.budget;
      EXPECT_LE(CountersOf(session).peak_bytes, plan.devices[0].allocated_bytes) << asked.budget;
      const uint64_t allocations = CountersOf(session).allocations;
      Generate(**engine, 6);
      Generate(**engine, 3);
      EXPECT_EQ(CountersOf(session).allocations, allocations) << "a run allocated device memory";
    }
  }
}

TEST_P(PlannedSessionTest, ExactlyThePlansMemoryRunsAndOneGranuleLessFailsAtLoad) {
  const auto all = Load(GetParam(), {"", "all"});
  ASSERT_TRUE(all.ok()) << all.status().ToString();
  const uint64_t needed_bytes = (*all)->session().impl().plan()->devices[0].allocated_bytes;
  const auto exact = Load(GetParam(), {"", "all", needed_bytes});
  ASSERT_TRUE(exact.ok()) << exact.status().ToString();
  Generate(**exact, 3);
  const auto less = Load(GetParam(), {"", "all", needed_bytes - kGranularityBytes});
  ASSERT_EQ(less.status().code(), StatusCode::kResourceExhausted) << less.status().ToString();
  const MemoryShortage* shortage = less.status().memory_shortage();
  ASSERT_NE(shortage, nullptr);
  EXPECT_EQ(shortage->device, "gpu:0");
  EXPECT_EQ(shortage->needed_bytes - shortage->available_bytes, kGranularityBytes);
  EXPECT_FALSE(shortage->largest_contributors.empty());
}

INSTANTIATE_TEST_SUITE_P(Zoo, PlannedSessionTest, ::testing::ValuesIn(ZooFolders()), NameOfFolder);

class DecodeStepTest : public ::testing::TestWithParam<std::string> {};

// Also on the host: a token is made without touching the heap.
TEST_P(DecodeStepTest, AllocatesNothing) {
  if (!testing::CanCountAllocations()) GTEST_SKIP() << "a sanitizer owns malloc";
  testing::AcceleratorLog log;
  testing::AcceleratorOptions accelerator;
  accelerator.devices = 1;
  const std::shared_ptr<Env> env = *Env::Create({2});
  ASSERT_TRUE(env->impl().RegisterProvider(testing::MakeTestAccelerator(&log, accelerator)).ok());
  const ModelFolder folder = *ModelFolder::Open(GetParam());
  for (const char* gpu_layers : {"0", "2", "all"}) {
    EngineOptions options;
    options.context_length_tokens = 64;
    ASSERT_TRUE(options.session.Set("session.gpu_layers", gpu_layers).ok());
    const auto engine = Engine::Create(env, folder, options);
    ASSERT_TRUE(engine.ok()) << engine.status().ToString();
    const SequenceId sequence = *(*engine)->AddSequence();
    const std::vector<int32_t> prompt = {1, 2, 3, 4, 5};
    const std::vector<int32_t> token = {7};
    const SequenceStep prefill{sequence, prompt, 1};
    const SequenceStep decode{sequence, token, 1};
    ASSERT_TRUE((*engine)->Step({&prefill, 1}).ok());
    ASSERT_TRUE((*engine)->Step({&decode, 1}).ok());
    const testing::AllocationCounter counter;
    for (int i = 0; i < 3; ++i) {
      const Status status = (*engine)->Step({&decode, 1});
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
    EXPECT_EQ(counter.count(), 0) << "--gpu-layers " << gpu_layers;
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, DecodeStepTest, ::testing::ValuesIn(ZooFolders()), NameOfFolder);

// Each allocation of a load fails in turn: a typed error, nothing is left, and the next load works.
TEST(PlannedSessionFailureTest, EveryAllocationOfALoadMayFail) {
  testing::AcceleratorLog log;
  testing::AcceleratorOptions accelerator;
  accelerator.devices = 1;
  const std::shared_ptr<Env> env = *Env::Create({1});
  ASSERT_TRUE(env->impl().RegisterProvider(testing::MakeTestAccelerator(&log, accelerator)).ok());
  const ModelFolder folder = *ModelFolder::Open(SourcePath("tests/data/zoo/llama-fp32"));
  EngineOptions options;
  options.context_length_tokens = 64;
  ASSERT_TRUE(options.session.Set("session.gpu_layers", "all").ok());
  ASSERT_TRUE(options.session.Set("session.device_memory_budget", "1GiB").ok());
  int failures = 0;
  for (int64_t nth = 1; nth < 1000; ++nth) {
    log.ClearCounts();
    log.failing_allocation = nth;
    const auto engine = Engine::Create(env, folder, options);
    log.failing_allocation = 0;
    if (engine.ok()) break;
    ++failures;
    EXPECT_EQ(engine.status().code(), StatusCode::kResourceExhausted) << engine.status().ToString();
    EXPECT_EQ(log.memory_in_use_bytes, 0) << nth;
  }
  EXPECT_GE(failures, 3);  // weights, cache, frame
  const auto engine = Engine::Create(env, folder, options);
  EXPECT_TRUE(engine.ok()) << engine.status().ToString();
}

using PlannedRunsTest = PlannedSessionTest;

// Prompts of all lengths, several sequences and rewinds, a thousand times: the devices are never asked again.
TEST_P(PlannedRunsTest, AThousandMixedRunsAllocateNoDeviceMemory) {
  const auto engine = Load(GetParam(), {"", "2"});
  ASSERT_TRUE(engine.ok()) << engine.status().ToString();
  const Session& session = (*engine)->session();
  const SimCounters before = CountersOf(session);
  uint32_t random = 12345;
  const auto next = [&](uint32_t bound) { return (random = random * 1664525 + 1013904223) / 65536 % bound; };
  std::vector<int32_t> tokens(40);
  for (int32_t& token : tokens) token = static_cast<int32_t>(next(32));
  SequenceId sequence = *(*engine)->AddSequence();
  for (int run = 0; run < 1000; ++run) {
    const size_t count = next(3) == 0 ? 1 + next(40) : 1;
    if ((*engine)->length_tokens(sequence) + static_cast<int64_t>(count) > 128) {
      (*engine)->RemoveSequence(sequence);
      sequence = *(*engine)->AddSequence();
    }
    const SequenceStep row{sequence, std::span(tokens).first(count), 1};
    const Status status = (*engine)->Step({&row, 1});
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  EXPECT_EQ(CountersOf(session).allocations, before.allocations);
  EXPECT_EQ(CountersOf(session).resident_bytes, before.resident_bytes);
}

INSTANTIATE_TEST_SUITE_P(Some, PlannedRunsTest,
                         ::testing::Values(SourcePath("tests/data/zoo/llama-fp32"),
                                           SourcePath("tests/data/zoo/llama-torch-script")),
                         NameOfFolder);

class FramesTest : public ::testing::Test {
 protected:
  FramesTest() : env_(*Env::Create({1})) {}

  Result<std::unique_ptr<Session>> Load(std::vector<std::pair<std::string, std::string>> given) {
    SessionOptions options;
    for (const auto& [key, value] : given) LAMINA_RETURN_IF_ERROR(options.Set(key, value));
    return Session::Load(env_, SourcePath("tests/data/zoo/llama-fp32/model.onnx"), options);
  }
  // One token for each sequence of the cache.
  static Status RunOnce(Session& session, KvCache& cache, const RunOptions& options) {
    RunBinding binding;
    for (size_t i = 0; i < session.inputs().size(); ++i) {
      const ValueSpec& input = session.inputs()[i];
      if (input.name == "input_ids" || input.name == "attention_mask") {
        const int64_t one[] = {1};
        LAMINA_ASSIGN_OR_RETURN(Tensor tensor,
                                Tensor::FromValues<int64_t>(DataType::kInt64, Shape{1, 1}, one));
        binding.BindInput(i, Value(std::move(tensor)));
      }
    }
    const KvRow row{0, 0};
    binding.BindKvCache(&cache, {&row, 1});
    return session.Run(options, binding);
  }

  std::shared_ptr<Env> env_;
};

TEST_F(FramesTest, OneRunTooManyFailsAtOnceOrWaits) {
  for (const bool fail_fast : {true, false}) {
    auto session = Load({{"session.context_length", "64"},
                         {"session.max_kv_caches", "2"},
                         {"session.pre_allocate_execution_buffers", fail_fast ? "1" : "0"}});
    ASSERT_TRUE(session.ok()) << session.status().ToString();
    KvCache first = *(*session)->CreateKvCache();
    KvCache second = *(*session)->CreateKvCache();
    // While the first run is in a step, another one is tried.
    Status inner;
    std::thread other;
    bool tried = false;
    RunOptions options;
    options.on_step = [&](const StepProfile&) {
      if (tried) return;
      tried = true;
      if (fail_fast) {
        inner = RunOnce(**session, second, {});
      } else {
        other = std::thread([&] { inner = RunOnce(**session, second, {}); });
      }
    };
    const Status outer = RunOnce(**session, first, options);
    if (other.joinable()) other.join();
    EXPECT_TRUE(outer.ok()) << outer.ToString();
    if (fail_fast) {
      EXPECT_EQ(inner.code(), StatusCode::kResourceExhausted);
      EXPECT_THAT(inner.message(),
                  HasSubstr("Concurrent Run() not allowed with pre-allocated execution buffers"));
    } else {
      EXPECT_TRUE(inner.ok()) << inner.ToString();
    }
  }
}

TEST_F(FramesTest, FramesAreCountedInThePlan) {
  const auto one = Load({{"session.context_length", "64"}});
  const auto three = Load({{"session.context_length", "64"}, {"session.max_concurrent_runs", "3"}});
  ASSERT_TRUE(one.ok() && three.ok());
  const Plan::DeviceMemory& small = (*one)->impl().plan()->devices.back();
  const Plan::DeviceMemory& large = (*three)->impl().plan()->devices.back();
  EXPECT_EQ(large.execution_bytes, 3 * small.execution_bytes);
  EXPECT_EQ(large.kv_cache_bytes, small.kv_cache_bytes);
}

}  // namespace
}  // namespace lamina
