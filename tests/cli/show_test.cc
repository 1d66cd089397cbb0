#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/subprocess.h"
#include "support/test_data.h"

namespace lamina {
namespace {

using nlohmann::json;
using testing::CommandOutcome;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::RunLamina;
using testing::SourcePath;

json ShowJson(const std::string& model) {
  const CommandOutcome outcome = RunLamina({"show", "--json", model});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.standard_error;
  return json::parse(outcome.standard_output);
}

uint64_t LayerBytes(const json& report) {
  uint64_t bytes = 0;
  for (const json& layer : report["layers"]) bytes += layer["bytes"].get<uint64_t>();
  return bytes;
}

uint64_t TypeBytes(const json& report) {
  uint64_t bytes = 0;
  for (const json& of_type : report["bytes_by_type"]) bytes += of_type.get<uint64_t>();
  return bytes;
}

TEST(ShowTest, TellsWhatTheBundledModelIs) {
  const CommandOutcome outcome = RunLamina({"show", SourcePath("models/tales")});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.standard_error;
  for (const char* text :
       {"llama", "million", "1024 tokens", "layers, from node names", "layers.1-7", "embedding", "head",
        "past_key_values.0-7.key", "int64 [batch_size,sequence_length]", "MatMulNBits"}) {
    EXPECT_THAT(outcome.standard_output, HasSubstr(text));
  }
}

TEST(ShowTest, JsonOfAnFp32Model) {
  const json report = ShowJson(SourcePath("tests/data/zoo/llama-fp32"));
  EXPECT_EQ(report["architecture"], "llama");
  EXPECT_EQ(report["layers_from"], "node names");
  ASSERT_EQ(report["layers"].size(), 6U);
  EXPECT_EQ(report["layers"][0]["name"], "embedding");
  EXPECT_EQ(report["layers"][1]["name"], "layers.0");
  EXPECT_EQ(report["layers"][5]["name"], "head");
  EXPECT_EQ(LayerBytes(report), TypeBytes(report));
  // Everything but the rotary tables and the constants of shapes is a parameter of 4 bytes.
  const auto parameter_bytes = 4 * report["parameters"].get<uint64_t>();
  EXPECT_LT(parameter_bytes, report["bytes_by_type"]["float"].get<uint64_t>());
  EXPECT_GT(parameter_bytes, report["bytes_by_type"]["float"].get<uint64_t>() * 9 / 10);
  EXPECT_EQ(report["inputs"][0]["name"], "input_ids");
  EXPECT_EQ(report["inputs"][0]["type"], "int64");
  EXPECT_EQ(report["inputs"][0]["shape"], json({"batch_size", "sequence_length"}));
  EXPECT_EQ(report["outputs"][0]["name"], "logits");
  EXPECT_EQ(report["operators"]["GroupQueryAttention"], 4);
  EXPECT_TRUE(report["metadata"].is_object());
  EXPECT_GT(report["context_length"].get<int64_t>(), 0);
}

TEST(ShowTest, QuantisedModelsCountTheirParametersUnpacked) {
  const json report = ShowJson(SourcePath("models/tales"));
  const auto parameters = report["parameters"].get<uint64_t>();
  EXPECT_GT(parameters, 13'000'000U);
  EXPECT_LT(parameters, 15'000'000U);
  EXPECT_LT(TypeBytes(report), parameters) << "4-bit weights";
}

TEST(ShowTest, ReadsNoWeights) {
  const testing::TempDir folder;
  std::filesystem::copy_file(SourcePath("models/tales/model.onnx"), folder.File("model.onnx"));
  const json report = ShowJson(folder.File("model.onnx"));
  EXPECT_TRUE(report["architecture"].is_null());
  EXPECT_TRUE(report["context_length"].is_null());
  EXPECT_EQ(report["layers"].size(), 10U);
}

TEST(ShowTest, FailuresAreTold) {
  const CommandOutcome missing = RunLamina({"show", "/no/such/model"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.standard_error, HasSubstr("/no/such/model"));
  EXPECT_THAT(missing.standard_output, IsEmpty());
  EXPECT_EQ(RunLamina({"show"}).exit_code, 2);

  const testing::TempDir folder;
  testing::WriteWholeFile(folder.File("broken.onnx"), "this is no model");
  const CommandOutcome broken = RunLamina({"show", folder.File("broken.onnx")});
  EXPECT_EQ(broken.exit_code, 1);
  EXPECT_THAT(broken.standard_error, HasSubstr("broken.onnx: byte "));
}

}  // namespace
}  // namespace lamina
