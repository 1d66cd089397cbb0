#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "support/subprocess.h"
#include "support/test_data.h"

namespace lamina {
namespace {

using testing::CommandOutcome;
using ::testing::HasSubstr;
using testing::RunLamina;
using testing::RunShell;

std::string Tales() { return testing::SourcePath("models/tales"); }

TEST(TokenizeCommand, PrintsJson) {
  const CommandOutcome outcome = RunLamina({"tokenize", Tales(), "--json", "Once upon a time"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.standard_error;
  const nlohmann::json json = nlohmann::json::parse(outcome.standard_output);
  EXPECT_EQ(json["ids"], (std::vector<int>{50, 1699, 548, 262, 569}));
  EXPECT_EQ(json["pieces"], (std::vector<std::string>{"O", "nce", "Ġupon", "Ġa", "Ġtime"}));
  EXPECT_EQ(json["count"], 5);
}

TEST(TokenizeCommand, ReadsStandardInputAsItIs) {
  const CommandOutcome outcome =
      RunShell("printf 'Once upon\\n' | $LAMINA tokenize '" + Tales() + "' --json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.standard_error;
  const CommandOutcome argument =
      RunLamina({"tokenize", Tales() + "/tokenizer.json", "--json", "Once upon\n"});
  EXPECT_EQ(outcome.standard_output, argument.standard_output);
}

TEST(TokenizeCommand, TakesWhatOtherCommandsCallAModel) {
  const std::string expected = RunLamina({"tokenize", Tales(), "--json", "Once"}).standard_output;
  EXPECT_EQ(RunLamina({"tokenize", Tales() + "/model.onnx", "--json", "Once"}).standard_output, expected);
  EXPECT_EQ(
      RunShell("cd '" + testing::SourcePath("") + "' && $LAMINA tokenize tales --json Once").standard_output,
      expected);
}

TEST(TokenizeCommand, GoesBack) {
  EXPECT_EQ(RunLamina({"tokenize", Tales(), "--decode", "50", "1699", "3"}).standard_output, "Once<|end|>\n");
  EXPECT_EQ(RunLamina({"tokenize", Tales(), "--decode", "--skip-special", "[50, 1699,3]"}).standard_output,
            "Once\n");
  EXPECT_EQ(RunLamina({"tokenize", Tales(), "--decode", "--json", "50"}).standard_output,
            "{\"text\":\"O\"}\n");
  EXPECT_EQ(RunShell("$LAMINA tokenize '" + Tales() + "' --json 'Once upon' | $LAMINA tokenize '" + Tales() +
                     "' --decode")
                .standard_output,
            "Once upon\n");
}

TEST(TokenizeCommand, IdsThatAreNoneAreNamed) {
  const auto fails = [](const char* ids, const char* text) {
    const CommandOutcome outcome = RunLamina({"tokenize", Tales(), "--decode", ids});
    EXPECT_EQ(outcome.exit_code, 1) << ids;
    EXPECT_THAT(outcome.standard_error, HasSubstr(text));
  };
  fails("50 x", "'x'");
  fails("99999999999", "'99999999999'");
  fails("{\"ids\": [50, -1]}", "'-1'");
  fails("{\"ids\": [4294967296]}", "'4294967296'");
  fails("{\"tokens\": [50]}", "\"ids\"");
  fails("{\"ids\": [50", "JSON");
}

TEST(TokenizeCommand, ShowsATable) {
  const CommandOutcome outcome = RunLamina({"tokenize", Tales(), "Once upon"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.standard_output, HasSubstr("1699  nce\n"));
  EXPECT_THAT(outcome.standard_output, HasSubstr("3 tokens, 9 bytes\n"));
}

TEST(TokenizeCommand, RefusesWhatItCannotRead) {
  EXPECT_EQ(RunLamina({"tokenize"}).exit_code, 2);
  const CommandOutcome absent = RunLamina({"tokenize", "/nonexistent", "x"});
  EXPECT_EQ(absent.exit_code, 1);
  EXPECT_THAT(absent.standard_error, HasSubstr("/nonexistent"));
  const CommandOutcome no_id = RunLamina({"tokenize", Tales(), "--decode", "12x"});
  EXPECT_EQ(no_id.exit_code, 1);
  EXPECT_THAT(no_id.standard_error, HasSubstr("12x"));
}

}  // namespace
}  // namespace lamina
