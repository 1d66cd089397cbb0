#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "model/onnx/model_reader.h"
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

TEST_F(OptimizeTest, EightBitsStayNearTheOriginal) {
  const fs::path out = folder_ / "int8";
  ASSERT_EQ(Optimize({"--quant", "int8", Zoo("llama-torch-dynamo"), out.string()}).exit_code, 0);
  const auto model = ReadModel((out / "model.onnx").string());
  ASSERT_TRUE(model.ok()) << model.status().message();
}

TEST_F(OptimizeTest, HalfPrecisionPassesWithItsTolerance) {
  for (const char* type : {"fp16", "bf16"}) {
    const fs::path out = folder_ / type;
    const CommandOutcome outcome = Optimize({"--dtype", type, Zoo("llama-torch-script"), out.string()});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.standard_error;
    EXPECT_THAT(outcome.standard_output, HasSubstr("nodes work in"));
    const CommandOutcome shown = RunLamina({"show", out.string()});
    EXPECT_EQ(shown.exit_code, 0) << shown.standard_error;
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
