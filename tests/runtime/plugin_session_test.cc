// Sessions on the example plugins: failures of the simulated accelerator, fused nodes of the provider in C.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../examples/simulated_accelerator/simulated_accelerator.h"
#include "model/onnx/model_writer.h"
#include "providers/plugin/plugin_provider.h"
#include "runtime/data_set.h"
#include "runtime/session_impl.h"
#include "support/test_data.h"

namespace lamina {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<Env> EnvWith(const std::string& plugin) {
  std::shared_ptr<Env> env = *Env::Create({2});
  const Status status =
      env->RegisterProviderLibrary("", std::string(LAMINA_BINARY_DIR) + "/lib" + plugin + ".so");
  EXPECT_TRUE(status.ok()) << status.ToString();
  return env;
}

class SimulatedFailureTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SessionOptions options;
    ASSERT_TRUE(options
                    .Set("session.name_based_layer_assignment",
                         "gpu:0(layers.0/, embed); cpu(layers.1/); gpu:1(layers.2/, lm_head)")
                    .ok());
    auto session = Session::Load(env_, folder_ + "/model.onnx", options);
    ASSERT_TRUE(session.ok()) << session.status().ToString();
    session_ = *std::move(session);
    provider_ = session_->impl().devices().front().provider;
    control_ = static_cast<const SimControl*>(
        static_cast<plugin::PluginProvider&>(*provider_).Extension(SIM_CONTROL_EXTENSION));
    ASSERT_NE(control_, nullptr);
  }
  // Nothing is left on the devices of a session that is gone.
  void TearDown() override {
    session_.reset();
    for (int32_t device = 0; control_ && device < 2; ++device) {
      const SimCounters counters = Counters(device);
      EXPECT_EQ(counters.resident_bytes, 0u) << device;
      EXPECT_EQ(counters.live_allocations, 0u) << device;
      EXPECT_EQ(counters.in_flight, 0u) << device;
      EXPECT_EQ(counters.live_streams, 0u) << device;
      EXPECT_EQ(counters.runs, 0u) << device;
    }
  }
  SimCounters Counters(int32_t device) const {
    SimCounters counters;
    control_->GetCounters(control_->self, device, &counters);
    return counters;
  }
  void Inject(int32_t device, SimFailure failure, uint64_t nth) const {
    control_->Inject(control_->self, device, failure, nth);
  }
  Status Run() { return CheckDataSet(*session_, FindDataSets(folder_).front()); }

  std::string folder_ = testing::SourcePath("tests/data/zoo/llama-fp32");
  std::shared_ptr<Env> env_ = EnvWith("simulated_accelerator");
  std::unique_ptr<Session> session_;
  std::shared_ptr<ExecutionProvider> provider_;
  const SimControl* control_ = nullptr;
};

TEST_F(SimulatedFailureTest, EveryKernelOfADeviceMayFail) {
  ASSERT_TRUE(Run().ok());
  for (int32_t device = 0; device < 2; ++device) {
    const uint64_t before = Counters(device).kernels;
    ASSERT_TRUE(Run().ok());
    const uint64_t kernels = Counters(device).kernels - before;
    ASSERT_GT(kernels, 0u);
    for (uint64_t nth = 1; nth <= kernels; ++nth) {
      Inject(device, SIM_FAIL_KERNEL, nth);
      const Status status = Run();
      EXPECT_EQ(status.code(), StatusCode::kInternal) << nth << ": " << status.ToString();
      EXPECT_THAT(status.message(), HasSubstr("node '")) << nth;
      EXPECT_THAT(status.message(), HasSubstr("gpu:" + std::to_string(device))) << nth;
      Inject(device, SIM_FAIL_KERNEL, 0);
      ASSERT_TRUE(Run().ok()) << nth;
    }
  }
}

TEST_F(SimulatedFailureTest, EveryCopyMayFail) {
  ASSERT_TRUE(Run().ok());
  for (int32_t device = 0; device < 2; ++device) {
    const auto copies = [&] {
      const SimCounters counters = Counters(device);
      return counters.copies_from_host + counters.copies_to_host + counters.copies_between_devices;
    };
    const uint64_t before = copies();
    ASSERT_TRUE(Run().ok());
    const uint64_t count = copies() - before;
    ASSERT_GT(count, 0u);
    for (uint64_t nth = 1; nth <= count; ++nth) {
      Inject(device, SIM_FAIL_COPY, nth);
      const Status status = Run();
      EXPECT_EQ(status.code(), StatusCode::kIo) << nth << ": " << status.ToString();
      EXPECT_THAT(status.message(), HasSubstr("gpu:")) << nth;
      Inject(device, SIM_FAIL_COPY, 0);
      const Status later = Run();
      ASSERT_TRUE(later.ok()) << nth << ": " << later.ToString();
    }
  }
}

TEST_F(SimulatedFailureTest, AFailedAllocationIsTyped) {
  const auto allocator =
      provider_->CreateAllocator(session_->impl().devices().front().device(), MemoryKind::kDevice);
  ASSERT_TRUE(allocator.ok()) << allocator.status().ToString();
  Inject(0, SIM_FAIL_ALLOCATION, 1);
  constexpr uint64_t kBytes = 4096;
  const Status status = (*allocator)->Alloc(kBytes).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.ToString();
  ASSERT_NE(status.memory_shortage(), nullptr);
  EXPECT_EQ(status.memory_shortage()->needed_bytes, kBytes);
  const Result<void*> later = (*allocator)->Alloc(kBytes);
  ASSERT_TRUE(later.ok()) << later.status().ToString();
  (*allocator)->Free(*later);
}

TEST_F(SimulatedFailureTest, ADeviceThatIsLostClosesTheSession) {
  for (const SimFailure failure : {SIM_LOSE_AT_KERNEL, SIM_LOSE_AT_COPY}) {
    if (failure == SIM_LOSE_AT_COPY) {
      TearDown();
      SetUp();
    }
    ASSERT_TRUE(Run().ok());
    Inject(1, failure, 2);
    const Status status = Run();
    EXPECT_EQ(status.code(), StatusCode::kDeviceLost) << status.ToString();
    EXPECT_THAT(status.message(), HasSubstr("sim:1 is lost"));
    const Status later = Run();
    EXPECT_EQ(later.code(), StatusCode::kDeviceLost);
    EXPECT_THAT(later.message(), HasSubstr("the session is closed"));
  }
}

TEST(CProviderSessionTest, SumAndReluRunAsOneNode) {
  Model model;
  model.ir_version = 10;
  model.opset_imports[""] = 21;
  model.names = std::make_shared<NamePool>();
  model.graph = std::make_unique<Graph>(model.names, nullptr);
  Graph& graph = *model.graph;
  const auto value = [&](const char* name) {
    return graph.MakeValue(name, ValueType::Tensor(DataType::kFloat), SymbolicShape{{2, 3}});
  };
  const ValueId x = value("x"), y = value("y"), sum = value("sum"), relu = value("relu"), z = value("z");
  graph.AddInput(x);
  graph.AddInput(y);
  graph.AddNode("add", "Add", "", 21, {x, y}, {sum});
  graph.AddNode("relu", "Relu", "", 21, {sum}, {relu});
  graph.AddNode("neg", "Neg", "", 21, {relu}, {z});
  graph.AddOutput(z);
  const testing::TempDir folder;
  ASSERT_TRUE(WriteModel(model, folder.File("model.onnx")).ok());

  const auto session = Session::Load(EnvWith("c_provider"), folder.File("model.onnx"));
  ASSERT_TRUE(session.ok()) << session.status().ToString();
  const Placement& placement = *(*session)->impl().placement();
  ASSERT_EQ(placement.fused_groups.size(), 1u);
  EXPECT_EQ(placement.fused_groups[0].nodes.size(), 2u);
  EXPECT_EQ((*session)->impl().executable().steps().size(), 3u) << "the fused node, a copy, Neg on the CPU";

  const std::vector<float> a{1, -2, 3, -4, 5, -6};
  const std::vector<float> b{1, 1, -9, 1, 1, 7};
  const std::vector<Value> inputs{*Tensor::FromValues<float>(DataType::kFloat, {2, 3}, a),
                                  *Tensor::FromValues<float>(DataType::kFloat, {2, 3}, b)};
  std::vector<Value> outputs;
  const Status status = (*session)->Run({}, inputs, &outputs);
  ASSERT_TRUE(status.ok()) << status.ToString();
  const std::span<const float> result = outputs[0].tensor().elements<float>();
  EXPECT_EQ(std::vector<float>(result.begin(), result.end()), (std::vector<float>{-2, 0, 0, 0, -6, -1}));
}

}  // namespace
}  // namespace lamina
