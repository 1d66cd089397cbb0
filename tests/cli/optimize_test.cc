#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <tuple>

#include "lamina/session.h"
#include "model/onnx/model_reader.h"
#include "model/onnx/value_file.h"
#include "providers/cpu/simd/vec_math.h"
#include "runtime/data_set.h"
#include "support/subprocess.h"
#include "support/test_data.h"

namespace lamina {
namespace {

namespace fs = std::filesystem;
using testing::CommandOutcome;
using ::testing::HasSubstr;
using testing::RunLamina;
using testing::SourcePath;

class OptimizeTest : public ::testing::Test {
 protected:
  OptimizeTest() : folder_(fs::temp_directory_path() / ("lamina_optimize_" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~OptimizeTest() override { fs::remove_all(folder_); }

  std::string Zoo(const std::string& name) { return SourcePath("tests/data/zoo/" + name); }

  void Copy(const std::string& from, const fs::path& to) { fs::copy(from, to, fs::copy_options::recursive); }

  CommandOutcome Optimize(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "optimize");
    return RunLamina(arguments);
  }

  // Runs the data sets of the source on the written model, without any further rewrite.
  void ExpectPasses(const std::string& source, const fs::path& written) {
    for (const auto& entry : fs::directory_iterator(source)) {
      if (entry.is_directory() && !fs::exists(written / entry.path().filename())) {
        fs::copy(entry.path(), written / entry.path().filename());
      }
    }
    const CommandOutcome outcome =
        RunLamina({"check", "--option", "session.disabled_rewrites=all", written.string()});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.standard_output << outcome.standard_error;
  }

  fs::path folder_;
};

TEST_F(OptimizeTest, AFolderIsWrittenWithItsCompanions) {
  for (const char* name : {"llama-torch-script", "llama-torch-dynamo", "qwen2-fp32", "llama-int4-cpu"}) {
    const fs::path out = folder_ / name;
    const CommandOutcome outcome = Optimize({Zoo(name), out.string()});
    ASSERT_EQ(outcome.exit_code, 0) << name << outcome.standard_error;
    EXPECT_THAT(outcome.standard_output, HasSubstr("nodes became"));
    ExpectPasses(Zoo(name), out);
    EXPECT_EQ(fs::exists(out / "genai_config.json"), fs::exists(fs::path(Zoo(name)) / "genai_config.json"));
  }
}

TEST_F(OptimizeTest, BesideTheSourceWeightsStayWhereTheyAre) {
  const fs::path source = folder_ / "source";
  Copy(Zoo("llama-fp32"), source);
  const auto data_bytes = fs::file_size(source / "model.onnx.data");
  ASSERT_EQ(Optimize({(source / "model.onnx").string(), (source / "small.onnx").string()}).exit_code, 0);
  EXPECT_LT(fs::exists(source / "small.onnx.data") ? fs::file_size(source / "small.onnx.data") : 0,
            data_bytes / 2);
  const CommandOutcome copied =
      Optimize({"--copy-weights", (source / "model.onnx").string(), (source / "whole.onnx").string()});
  ASSERT_EQ(copied.exit_code, 0) << copied.standard_error;
  EXPECT_GE(fs::file_size(source / "whole.onnx.data"), data_bytes / 2);
  fs::remove(source / "model.onnx");
  fs::rename(source / "small.onnx", source / "model.onnx");
  ExpectPasses(Zoo("llama-fp32"), source);
}

TEST_F(OptimizeTest, QuantizationReportsItsErrorPerLayer) {
  const fs::path out = folder_ / "quantized";
  const CommandOutcome outcome =
      Optimize({"--quant", "int4", "--block", "32", Zoo("llama-torch-script"), out.string()});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.standard_error;
  for (const char* text :
       {"weights in int4 blocks of 32", "layers.0", "layers.3", "head", "relative error"}) {
    EXPECT_THAT(outcome.standard_output, HasSubstr(text));
  }
  const auto model = ReadModel((out / "model.onnx").string());
  ASSERT_TRUE(model.ok()) << model.status().message();
  int products = 0;
  for (const Node& node : (*model)->graph->nodes()) products += node.op_type == "MatMulNBits" ? 1 : 0;
  EXPECT_GE(products, 4 * 5 + 1);
  // It loads and runs; its outputs are those of other weights.
  const CommandOutcome shown = RunLamina({"show", out.string()});
  EXPECT_EQ(shown.exit_code, 0) << shown.standard_error;
}

// A floating-point tensor in another floating-point type; others as they are.
Tensor As(const Tensor& tensor, DataType type) {
  if (tensor.type() == type || tensor.type() != DataType::kFloat) return tensor;
  Tensor converted = *Tensor::Allocate(type, tensor.shape());
  ConvertFromFloat(type, tensor.data<float>(), converted.mutable_raw_data(), tensor.num_elements());
  return converted;
}

// How far logits lie from the recorded ones: the root of the mean square of the differences over that of the
// recorded numbers, in the worst of all data sets. A wrong model has about 1.4.
double RelativeError(const std::string& source, const fs::path& written) {
  const auto session = Session::Load(*Env::Create({}), (written / "model.onnx").string());
  EXPECT_TRUE(session.ok()) << written << session.status().message();
  if (!session.ok()) return 1;
  double worst = 0;
  for (const std::string& set : FindDataSets(source)) {
    std::vector<Value> inputs, outputs;
    for (size_t i = 0; i < (*session)->inputs().size(); ++i) {
      const DataType type = (*session)->inputs()[i].type.element;
      const Result<Value> input = ReadValueFile(
          fmt::format("{}/input_{}.pb", set, i),
          ValueType::Tensor(type == DataType::kFloat16 || type == DataType::kBfloat16 ? DataType::kFloat
                                                                                      : type));
      EXPECT_TRUE(input.ok()) << input.status().message();
      inputs.emplace_back(As(input->tensor(), type));
    }
    const Status status = (*session)->Run({}, inputs, &outputs);
    EXPECT_TRUE(status.ok()) << written << status.message();
    if (!status.ok()) return 1;
    const Tensor& found = outputs[0].tensor();
    const Result<Value> expected = ReadValueFile(set + "/output_0.pb", ValueType::Tensor(DataType::kFloat));
    EXPECT_TRUE(expected.ok()) << expected.status().message();
    EXPECT_EQ(found.shape(), expected->tensor().shape());
    std::vector<float> values(static_cast<size_t>(found.num_elements()));
    ConvertToFloat(found.type(), found.raw_data(), values.data(), found.num_elements());
    double squares = 0, difference_squares = 0;
    for (size_t element = 0; element < values.size(); ++element) {
      const double record = static_cast<double>(expected->tensor().data<float>()[element]);
      squares += record * record;
      difference_squares += std::pow(static_cast<double>(values[element]) - record, 2);
    }
    worst = std::max(worst, std::sqrt(difference_squares / squares));
  }
  return worst;
}

const char* const kFp32Models[] = {"llama-fp32",         "qwen2-fp32",         "qwen3-fp32",
                                   "gemma2-fp32",        "mistral-fp32",       "llama-torch-script",
                                   "llama-torch-dynamo", "qwen2-torch-script", "ernie-fp32"};

TEST_F(OptimizeTest, QuantizedModelsRunNearTheOriginal) {
  for (const char* name : kFp32Models) {
    for (const auto& [quant, block, tolerance] :
         {std::tuple("int8", "32", 0.04), std::tuple("int4", "16", 0.4), std::tuple("int4", "32", 0.5)}) {
      const fs::path out = folder_ / fmt::format("{}-{}-{}", name, quant, block);
      const CommandOutcome outcome = Optimize({"--quant", quant, "--block", block, Zoo(name), out.string()});
      ASSERT_EQ(outcome.exit_code, 0) << name << outcome.standard_error;
      const double error = RelativeError(Zoo(name), out);
      EXPECT_LT(error, tolerance) << name << " " << quant << " " << block;
      EXPECT_GT(error, 0) << name << " " << quant;
    }
  }
}

TEST_F(OptimizeTest, HalfPrecisionRunsNearTheOriginalAndItsCacheHasOneType) {
  for (const char* name : kFp32Models) {
    for (const auto& [type, element, tolerance] :
         {std::tuple("fp16", DataType::kFloat16, 0.005), std::tuple("bf16", DataType::kBfloat16, 0.04)}) {
      const fs::path out = folder_ / fmt::format("{}-{}", name, type);
      const CommandOutcome outcome = Optimize({"--dtype", type, Zoo(name), out.string()});
      ASSERT_EQ(outcome.exit_code, 0) << name << outcome.standard_error;
      const auto model = ReadModel((out / "model.onnx").string());
      ASSERT_TRUE(model.ok()) << model.status().message();
      const Graph& graph = *(*model)->graph;
      for (const auto& values : {graph.inputs(), graph.outputs()}) {
        for (const ValueId id : values) {
          const ValueInfo& value = graph.value(id);
          if (value.type.element == DataType::kInt64 || value.type.element == DataType::kInt32) continue;
          EXPECT_EQ(value.type.element, element) << name << " " << value.name.str();
        }
      }
      EXPECT_LT(RelativeError(Zoo(name), out), tolerance) << name << " " << type;
    }
  }
}

// Without the rewrites that make attention nodes, past and present are joined by Concat.
TEST_F(OptimizeTest, HalfPrecisionWithoutFusedAttention) {
  const fs::path out = folder_ / "plain";
  const CommandOutcome outcome = Optimize({"--dtype", "fp16", "--disable", "cached-attention,causal-mask",
                                           Zoo("llama-torch-script"), out.string()});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.standard_error;
  EXPECT_LT(RelativeError(Zoo("llama-torch-script"), out), 0.005);
}

TEST_F(OptimizeTest, ConvertedStoriesGoOnAsTheOriginal) {
  LAMINA_SHARED_PATH_OR_SKIP(stories, "models/stories260K");
  const auto story = [](const std::string& model) {
    const CommandOutcome outcome =
        RunLamina({"run", model, "Once upon a time", "--raw", "--temperature", "0", "--max-tokens", "40"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.standard_error;
    return outcome.standard_output;
  };
  const std::string original = story(stories);
  EXPECT_GT(original.size(), 60u);
  for (const auto& [flag, value, same] :
       {std::tuple("--dtype", "fp16", 40u), std::tuple("--dtype", "bf16", 20u),
        std::tuple("--quant", "int8", 20u)}) {
    const fs::path out = folder_ / value;
    const CommandOutcome outcome = Optimize({flag, value, stories, out.string()});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.standard_error;
    EXPECT_EQ(story(out.string()).substr(0, same), original.substr(0, same)) << value;
  }
}

TEST_F(OptimizeTest, WhatCannotBeIsRefused) {
  const std::string model = Zoo("llama-fp32");
  const std::string out = (folder_ / "out").string();
  EXPECT_EQ(Optimize({"--dtype", "fp8", model, out}).exit_code, 1);
  EXPECT_EQ(Optimize({"--quant", "int3", model, out}).exit_code, 1);
  EXPECT_EQ(Optimize({"--quant", "int4", "--block", "33", model, out}).exit_code, 1);
  EXPECT_EQ(Optimize({"--disable", "nothing", model, out}).exit_code, 1);
  EXPECT_EQ(Optimize({model}).exit_code, 2);
  const CommandOutcome itself = Optimize({model, model});
  EXPECT_EQ(itself.exit_code, 1);
  EXPECT_THAT(itself.standard_error, HasSubstr("OUT is the model itself"));
}

}  // namespace
}  // namespace lamina
