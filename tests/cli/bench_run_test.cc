#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/bench_table.h"
#include "support/subprocess.h"
#include "support/test_data.h"

namespace lamina {
namespace {

using cli::BenchFormat;
using cli::BenchResult;
using testing::CommandOutcome;
using ::testing::HasSubstr;
using testing::RunLamina;
using testing::TempDir;

BenchResult SomeResult() {
  BenchResult result;
  result.model = "a \"model\"";
  result.size_bytes = uint64_t{3} << 30;
  result.params = 8'030'000'000;
  result.backend = "CUDA";
  result.gpu_layers = 34;
  result.test = "tg128";
  result.tokens_per_s = {90, 110};
  result.bytes_per_s = 1e12;
  result.bound_bytes_per_s = 4e12;
  return result;
}

TEST(BenchTableTest, MeanAndDeviationOfTheSample) {
  EXPECT_DOUBLE_EQ(SomeResult().mean(), 100);
  EXPECT_NEAR(SomeResult().deviation(), 14.142, 1e-3);
  EXPECT_EQ(BenchResult().mean(), 0);
}

TEST(BenchTableTest, Formats) {
  const std::string markdown = FormatBenchResults({SomeResult()}, BenchFormat::kMarkdown);
  EXPECT_THAT(markdown, HasSubstr("| 3.00 GiB | 8.03 B |"));
  EXPECT_THAT(markdown, HasSubstr("| tg128 | 100.00 ± 14.14 | 1000.0 |   25.0 % |"));
  const std::string csv = FormatBenchResults({SomeResult()}, BenchFormat::kCsv);
  EXPECT_THAT(csv, HasSubstr("\n\"a \"\"model\"\"\",3221225472,8030000000,\"CUDA\",34,\"tg128\",1,100.0"));
  const auto json = nlohmann::json::parse(FormatBenchResults({SomeResult()}, BenchFormat::kJson));
  EXPECT_EQ(json.at(0).at("samples_ts").size(), 2u);
  EXPECT_EQ(json.at(0).at("n_gpu_layers"), 34);
}

TEST(BenchRunTest, MeasuresAModel) {
  const TempDir dir;
  ASSERT_EQ(RunLamina({"synth", dir.File("model"), "--layers", "1", "--hidden", "64", "--heads", "4",
                       "--kv-heads", "2", "--vocab", "512"})
                .exit_code,
            0);
  const CommandOutcome outcome =
      RunLamina({"bench", "run", dir.File("model"), "--provider", "cpu", "-p", "8,4", "-n", "3", "-d", "0,5",
                 "-r", "2", "--batch", "2", "-o", "json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.standard_error;
  const auto results = nlohmann::json::parse(outcome.standard_output);
  std::vector<std::string> tests;
  for (const auto& result : results) {
    tests.push_back(result.at("test"));
    EXPECT_GT(result.at("avg_ts"), 0);
    EXPECT_EQ(result.at("samples_ts").size(), 2u);
    EXPECT_EQ(result.at("backends"), "CPU");
  }
  EXPECT_EQ(tests, (std::vector<std::string>{"pp8", "pp4", "tg3 b2", "pp8 @ d5", "pp4 @ d5", "tg3 @ d5 b2"}));
}

TEST(BenchRunTest, RefusesWhatItDoesNotKnow) {
  const CommandOutcome format = RunLamina({"bench", "run", "nothing", "-o", "xml"});
  EXPECT_EQ(format.exit_code, 1);
  EXPECT_THAT(format.standard_error, HasSubstr("expected md, json or csv, found 'xml'"));
  const CommandOutcome prompt = RunLamina({"bench", "run", "nothing", "-p", "12,x"});
  EXPECT_EQ(prompt.exit_code, 1);
  EXPECT_THAT(prompt.standard_error, HasSubstr("--prompt"));
}

}  // namespace
}  // namespace lamina
