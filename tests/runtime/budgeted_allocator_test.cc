#include "runtime/budgeted_allocator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/env_impl.h"
#include "runtime/session_impl.h"
#include "support/random_data.h"
#include "support/random_graph.h"
#include "support/test_accelerator.h"
#include "support/test_data.h"

namespace lamina {
namespace {

using ::testing::HasSubstr;

class BudgetTest : public ::testing::Test {
 protected:
  BudgetTest() {
    testing::AcceleratorOptions accelerator;
    accelerator.devices = 1;
    const std::shared_ptr<ProviderFactory> factory = testing::MakeTestAccelerator(&log_, accelerator);
    provider_ = *factory->Create({});
    EXPECT_TRUE(env_->impl().RegisterProvider(factory).ok());
  }

  testing::AcceleratorLog log_;
  std::shared_ptr<ExecutionProvider> provider_;
  std::shared_ptr<Env> env_ = *Env::Create({1});
};

TEST_F(BudgetTest, GranulesAreCountedAndComeBack) {
  const Device device = provider_->devices().front().device;
  BudgetedAllocator memory(*provider_->CreateAllocator(device, MemoryKind::kDevice), 10000, 4096);
  void* first = *memory.Alloc(1);  // a granule
  void* second = *memory.Reserve(4096);
  const Status status = memory.Alloc(1).status();  // 1,808 bytes are left, less than a granule
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("gpu:0: 1 bytes are asked for, 1808 of the budget of 10000"));
  ASSERT_NE(status.memory_shortage(), nullptr);
  EXPECT_EQ(status.memory_shortage()->available_bytes, 1808u);
  EXPECT_EQ(memory.Alloc(UINT64_MAX).status().code(), StatusCode::kResourceExhausted);
  memory.Free(first);
  void* third = *memory.Alloc(4000);
  memory.Free(nullptr);
  memory.Free(second);
  memory.Free(third);
  EXPECT_EQ(log_.memory_in_use_bytes, 0);
}

TEST_F(BudgetTest, WhatTheDeviceRefusesDoesNotCount) {
  const Device device = provider_->devices().front().device;
  BudgetedAllocator memory(*provider_->CreateAllocator(device, MemoryKind::kDevice), 4096, 4096);
  log_.failing_allocation = log_.allocations + 1;
  EXPECT_FALSE(memory.Alloc(100).ok());
  const Result<void*> later = memory.Alloc(100);
  ASSERT_TRUE(later.ok()) << later.status().ToString();
  memory.Free(*later);
}

// A session without bounds takes its values from an arena, which grows inside the budget only.
TEST_F(BudgetTest, ArenasGrowInsideTheBudget) {
  testing::RandomGraph graph(7);
  const testing::TempDir folder;
  ASSERT_TRUE(graph.Write(folder.File("model.onnx")).ok());
  SessionOptions options;
  ASSERT_TRUE(options.AppendProvider("test", {{"arena.initial_chunk_size_bytes", "64KiB"}}).ok());
  ASSERT_TRUE(options.Set("session.device_memory_budget", "1MiB").ok());
  const auto session = Session::Load(env_, folder.File("model.onnx"), options);
  ASSERT_TRUE(session.ok()) << session.status().ToString();
  const auto run = [&](int64_t rows) {
    const std::vector<float> numbers = testing::RandomNumbers(rows * testing::kRandomGraphWidth, 1);
    const std::vector<Value> inputs{
        *Tensor::FromValues<float>(DataType::kFloat, Shape{rows, testing::kRandomGraphWidth}, numbers)};
    std::vector<Value> outputs;
    return (*session)->Run({}, inputs, &outputs);
  };
  EXPECT_TRUE(run(10).ok());
  const Status status = run(100000);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.ToString();
  EXPECT_LE(log_.memory_in_use_bytes, 1 << 20);
  const Status later = run(20);
  EXPECT_TRUE(later.ok()) << later.ToString();
}

TEST_F(BudgetTest, OptionsOfArenasAreChecked) {
  for (const auto& [key, value] : {std::pair("arena.initial_chunk_size_bytes", "many"),
                                   std::pair("arena.extend_strategy", "2"), std::pair("arena.colour", "1")}) {
    SessionOptions options;
    ASSERT_TRUE(options.AppendProvider("test", {{key, value}}).ok());
    const auto session =
        Session::Load(env_, testing::SourcePath("tests/data/zoo/llama-fp32/model.onnx"), options);
    EXPECT_EQ(session.status().code(), StatusCode::kInvalidArgument) << key;
    EXPECT_THAT(session.status().message(), HasSubstr(key));
  }
}

}  // namespace
}  // namespace lamina
