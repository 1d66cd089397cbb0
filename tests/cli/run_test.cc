#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/subprocess.h"
#include "support/test_data.h"

namespace lamina {
namespace {

using testing::CommandOutcome;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::RunLamina;
using testing::RunShell;

const std::string& Tales() {
  static const std::string path = testing::SourcePath("models/tales");
  return path;
}

TEST(RunCommandTest, PrintsTheCompletionAlone) {
  const CommandOutcome outcome =
      RunLamina({"run", Tales(), "Once upon a time", "--raw", "--temperature", "0", "--max-tokens", "15"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.standard_error;
  EXPECT_EQ(outcome.standard_output, "-table, and I am going to take a walk with you.\n");
  EXPECT_THAT(outcome.standard_error, IsEmpty());
}

TEST(RunCommandTest, PipedInputJoinsThePrompt) {
  const std::string prompt = "The old ship";
  const CommandOutcome argument =
      RunLamina({"run", Tales(), prompt, "--raw", "--seed", "1", "--max-tokens", "8"});
  const CommandOutcome piped =
      RunLamina({"run", Tales(), "--raw", "--seed", "1", "--max-tokens", "8"}, prompt + "\n");
  EXPECT_EQ(argument.exit_code, 0) << argument.standard_error;
  EXPECT_EQ(argument.standard_output, piped.standard_output);
  EXPECT_EQ(RunLamina({"run", Tales()}).exit_code, 1);
}

TEST(RunCommandTest, ASeedRepeatsAnAnswerAndThreadsDoNotChangeIt) {
  const auto answer = [](const char* seed, const char* threads) {
    return RunLamina({"run", Tales(), "Tell me a story.", "--temperature", "1", "--seed", seed,
                      "--max-tokens", "20", "--threads", threads})
        .standard_output;
  };
  EXPECT_EQ(answer("7", "1"), answer("7", "2"));
  EXPECT_NE(answer("7", "1"), answer("8", "1"));
}

TEST(RunCommandTest, StopStringsEndTheAnswerBeforeThem) {
  const CommandOutcome outcome = RunLamina({"run", Tales(), "Once upon a time", "--raw", "--temperature", "0",
                                            "--max-tokens", "40", "--stop", " walk"});
  EXPECT_EQ(outcome.standard_output, "-table, and I am going to take a\n");
}

TEST(RunCommandTest, JsonLinesEndWithASummary) {
  const CommandOutcome outcome =
      RunLamina({"run", Tales(), "Hello", "--json", "--max-tokens", "4", "--verbose"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.standard_output, HasSubstr("{\"text\":"));
  EXPECT_THAT(outcome.standard_output, HasSubstr("\"stop_reason\":\"max_tokens\""));
  EXPECT_THAT(outcome.standard_error, HasSubstr("tokens/s"));
}

TEST(RunCommandTest, AProfileIsWritten) {
  const testing::TempDir dir;
  const CommandOutcome outcome =
      RunLamina({"run", Tales(), "Hello", "--max-tokens", "2", "--profile", dir.File("trace.json")});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.standard_error;
  const std::string trace = testing::ReadWholeFile(dir.File("trace.json"));
  EXPECT_THAT(trace, HasSubstr("\"traceEvents\""));
  EXPECT_THAT(trace, HasSubstr("MatMulNBits"));
  EXPECT_EQ(trace.substr(trace.size() - 3), "]}\n");
  // No step moves as much as the table of embeddings, of which a few rows are read.
  uint64_t largest_bytes = 0;
  const nlohmann::json parsed = nlohmann::json::parse(trace);
  for (const auto& event : parsed.at("traceEvents")) {
    if (event.at("cat") != "GatherBlockQuantized") continue;
    largest_bytes = std::max(largest_bytes, event.at("args").at("bytes").get<uint64_t>());
  }
  EXPECT_GT(largest_bytes, 0);
  EXPECT_LT(largest_bytes, 64 * 1024);
  EXPECT_EQ(RunLamina({"run", Tales(), "Hello", "--profile", dir.path()}).exit_code, 1);
}

TEST(RunCommandTest, MistakesAreNamed) {
  const auto fails = [](std::vector<std::string> arguments, int exit_code, const char* text) {
    arguments.insert(arguments.begin(), "run");
    const CommandOutcome outcome = RunLamina(arguments);
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.standard_error;
    EXPECT_THAT(outcome.standard_error, HasSubstr(text));
    EXPECT_THAT(outcome.standard_output, IsEmpty());
  };
  fails({"no-such-model", "x"}, 1, "no-such-model");
  fails({Tales(), "x", "--bogus"}, 2, "--bogus");
  fails({Tales(), "x", "--temperature", "hot"}, 2, "--temperature: expected a number, found 'hot'");
  fails({Tales(), "x", "--temperature", "-1"}, 1, "--temperature: expected a number from 0");
  fails({Tales(), "x", "--max-tokens", "1.5"}, 2, "--max-tokens: expected a whole number, found '1.5'");
  fails({Tales(), "x", "--threads", "two"}, 2, "--threads: expected a whole number, found 'two'");
  fails({Tales(), "x", "--threads", "0"}, 1, "--threads: expected a whole number from 1");
  fails({Tales(), "x", "--context", "some"}, 2, "--context: expected a whole number or max, found 'some'");
  fails({Tales(), "x", "--gpu-layers", "many"}, 2, "--gpu-layers: expected a whole number or all");
  fails({Tales(), "x", "--option", "key"}, 2, "--option: expected KEY=VALUE, found 'key'");
  fails({Tales(), "x", "--option", "session.max_bach=1"}, 1, "session.max_batch");
  fails({Tales(), "x", "--option", "session.max_batch=none"}, 1, "session.max_batch");
  fails({Tales(), "x", "--gpu-memory", "6GiB"}, 1, "--gpu-memory");
  fails({Tales(), "x", "--gpu-layers", "all"}, 1, "--gpu-layers");
  fails({Tales(), "x", "--device", "gpu:0=memory=8GiB"}, 1, "--device");
  fails({Tales(), "x", "--provider", "tpu"}, 1, "present are: cuda, cpu");
  fails({Tales() + "/tokenizer.json", "x"}, 1, "tokenizer.json");
  fails({Tales(), "x", "--context", "2"}, 1, "context");
}

TEST(RunCommandTest, AReaderThatLeavesEndsTheAnswerQuietly) {
  const CommandOutcome outcome = RunShell("\"$LAMINA\" run '" + Tales() + "' 'Tell me a story' | head -c 1");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.standard_output.size(), 1u);
  EXPECT_THAT(outcome.standard_error, IsEmpty());
}

TEST(CheckCommandTest, CountsDataSetsAndNamesTheFailingOnes) {
  const testing::TempDir dir;
  namespace fs = std::filesystem;
  const std::string zoo = testing::SourcePath("tests/data/zoo");
  fs::copy(zoo + "/llama-fp32", dir.File("good"), fs::copy_options::recursive);
  fs::copy(zoo + "/llama-fp32", dir.File("bad"), fs::copy_options::recursive);
  fs::copy_file(dir.File("bad/test_data_set_1/output_0.pb"), dir.File("bad/test_data_set_2/output_0.pb"),
                fs::copy_options::overwrite_existing);
  const CommandOutcome outcome = RunLamina({"check", dir.path()});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.standard_output, HasSubstr("bad/test_data_set_2: output 0 'logits'"));
  EXPECT_THAT(outcome.standard_output, HasSubstr("\n7 passed, 1 failed\n"));
  const CommandOutcome good = RunLamina({"check", dir.File("good")});
  EXPECT_EQ(good.exit_code, 0);
  EXPECT_EQ(good.standard_output, "4 passed, 0 failed\n");
}

TEST(CheckCommandTest, AModelThatCannotBeLoadedFailsItsSets) {
  const testing::TempDir dir;
  std::filesystem::create_directories(dir.File("m/test_data_set_0"));
  std::ofstream(dir.File("m/model.onnx")) << "this is no model";
  const CommandOutcome outcome = RunLamina({"check", dir.File("m")});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.standard_output, HasSubstr("0 passed, 1 failed\n"));
}

TEST(DevicesCommandTest, ListsTheCpu) {
  const CommandOutcome outcome = RunLamina({"devices"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.standard_output, HasSubstr("cpu"));
  EXPECT_THAT(RunLamina({"devices", "--json"}).standard_output, HasSubstr("\"memory_total_bytes\""));
}

}  // namespace
}  // namespace lamina
