// Damaged models never crash, hang or take memory without bound. Run under the asan preset for its full
// worth.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>

#include "base/log.h"
#include "model/onnx/model_writer.h"
#include "model/onnx/value_file.h"
#include "support/cpu_time.h"
#include "support/hostile_model.h"
#include "support/onnx_mutator.h"
#include "support/rare_model.h"
#include "support/test_data.h"

namespace lamina {
namespace {

uint64_t PeakResidentBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

// Uses `count` damaged copies of `original`.
void UseMutations(const std::string& original, uint32_t seed, int count) {
  SetLogLevel(LogLevel::kError);
  testing::OnnxMutator mutator(original, seed);
  const uint64_t resident_before = PeakResidentBytes();
  int readable = 0;
  for (int i = 0; i < count; ++i) {
    const std::string mutated = mutator.Next();
    const double start = testing::CpuSeconds();
    const Status status = testing::UseHostileModel(std::as_bytes(std::span(mutated)));
    EXPECT_LT(testing::CpuSeconds() - start, 20) << "seed " << seed << ", mutation " << i;
    EXPECT_NE(status.code(), StatusCode::kInternal)
        << "seed " << seed << ", mutation " << i << ": " << status.ToString();
    readable += status.ok();
  }
  EXPECT_LT(PeakResidentBytes() - resident_before, uint64_t{1} << 30) << "seed " << seed;
  // Otherwise the mutations do not reach past the decoder.
  EXPECT_GT(readable, count / 50) << "seed " << seed;
  EXPECT_LT(readable, count) << "seed " << seed;
}

std::string ZooModel(const std::string& name) {
  return testing::ReadWholeFile(testing::SourcePath("tests/data/zoo/" + name + "/model.onnx"));
}

std::string RareModel() { return EncodeModel(*testing::MakeRareModel()).value(); }

TEST(HostileModelsTest, DamagedZooModels) {
  UseMutations(ZooModel("llama-int4-cpu"), 1, 600);
  UseMutations(ZooModel("gptoss-fp32"), 2, 600);
}

TEST(HostileModelsTest, DamagedModelWithFunctionsAndSubgraphs) { UseMutations(RareModel(), 3, 1000); }

TEST(HostileModelsTest, FullDamagedZooModels) {
  uint32_t seed = 100;
  for (const char* name : {"llama-int4-cpu", "llama-fp16-cuda", "gptoss-fp32", "gemma2-fp32", "qwen3-fp32"}) {
    UseMutations(ZooModel(name), seed++, 2000);
  }
  for (const char* name : {"llama-torch-script", "llama-torch-dynamo"})
    UseMutations(ZooModel(name), seed++, 300);
}

TEST(HostileModelsTest, FullDamagedModelWithFunctionsAndSubgraphs) { UseMutations(RareModel(), 200, 20000); }

TEST(HostileModelsTest, DamagedValueFiles) {
  Optional optional{ValueType::SequenceOf(DataType::kFloat), nullptr};
  const std::vector<float> floats = {1, 2, 3};
  const Value tensor(*Tensor::FromValues<float>(DataType::kFloat, Shape{3}, floats));
  optional.value = std::make_unique<Value>(Sequence{DataType::kFloat, {tensor, tensor}});
  const Value values[] = {tensor, Value(std::move(optional)),
                          Value(Map{DataType::kString, DataType::kFloat, {{"a", 1.0}, {"b", 2.0}}})};
  uint32_t seed = 10;
  for (const Value& value : values) {
    testing::OnnxMutator mutator(EncodeValue(value, "x").value(), seed++);
    for (int i = 0; i < 500; ++i) {
      const std::string mutated = mutator.Next();
      const Result<Value> read = ReadValue(std::as_bytes(std::span(mutated)), "x.pb", value.type());
      EXPECT_TRUE(read.ok() || !read.status().message().empty());
    }
  }
}

}  // namespace
}  // namespace lamina
