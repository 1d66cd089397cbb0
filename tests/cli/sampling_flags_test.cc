#include "cli/sampling_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/sampling_knobs.h"
#include "support/subprocess.h"
#include "support/test_data.h"

namespace lamina::cli {
namespace {

using testing::CommandOutcome;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::RunLamina;

const std::string& Tales() {
  static const std::string path = testing::SourcePath("models/tales");
  return path;
}

Result<GenerationSettings> Resolve(const std::vector<std::pair<std::string, std::string>>& given,
                                   const SamplingDefaults& defaults = {}) {
  SamplingFlags flags;
  for (const auto& [name, value] : given) LAMINA_RETURN_IF_ERROR(SetSamplingFlag(flags, name, value));
  return ResolveSampling(flags, defaults);
}

TEST(SamplingFlagsTest, EveryKnobReachesItsSetting) {
  const GenerationSettings settings = Resolve({{"temperature", "0.5"},
                                               {"dynatemp-range", "0.25"},
                                               {"dynamic_exponent", "2"},
                                               {"top-k", "7"},
                                               {"top-p", "0.5"},
                                               {"min-p", "0.125"},
                                               {"typical", "0.75"},
                                               {"top-n-sigma", "1.5"},
                                               {"min-keep", "3"},
                                               {"xtc-probability", "0.5"},
                                               {"xtc-threshold", "0.25"},
                                               {"mirostat", "2"},
                                               {"mirostat-ent", "4"},
                                               {"mirostat-lr", "0.5"},
                                               {"samplers", "top_k;temperature"},
                                               {"repeat-penalty", "1.5"},
                                               {"presence-penalty", "-0.5"},
                                               {"frequency-penalty", "0.25"},
                                               {"repeat-last-n", "-1"},
                                               {"no-repeat-ngram-size", "3"},
                                               {"dry-multiplier", "0.5"},
                                               {"dry-base", "2"},
                                               {"dry-allowed-length", "4"},
                                               {"dry-penalty-last-n", "100"},
                                               {"dry-sequence-breaker", "."},
                                               {"dry-sequence-breaker", "!"},
                                               {"logit-bias", "12+1.5"},
                                               {"logit-bias", "13-2"},
                                               {"logit-bias", "14=-inf"},
                                               {"logit-bias", "15-inf"},
                                               {"logit-bias", "16=false"},
                                               {"seed", "9"},
                                               {"logprobs", "2"},
                                               {"max-tokens", "11"},
                                               {"min-length", "5"},
                                               {"stop", "a"},
                                               {"stop", "b"},
                                               {"prompt-lookup", "6"},
                                               {"prompt-lookup-ngram", "2"}})
                                          .value();
  const SamplingParams& sampling = settings.sampling;
  EXPECT_EQ(sampling.temperature, 0.5F);
  EXPECT_EQ(sampling.dynamic_temperature, 0.25F);
  EXPECT_EQ(sampling.dynamic_exponent, 2);
  EXPECT_EQ(sampling.top_k, 7);
  EXPECT_EQ(sampling.top_p, 0.5F);
  EXPECT_EQ(sampling.min_p, 0.125F);
  EXPECT_EQ(sampling.typical_p, 0.75F);
  EXPECT_EQ(sampling.top_n_sigma, 1.5F);
  EXPECT_EQ(sampling.min_keep, 3);
  EXPECT_EQ(sampling.xtc_probability, 0.5F);
  EXPECT_EQ(sampling.xtc_threshold, 0.25F);
  EXPECT_TRUE(sampling.mirostat);
  EXPECT_EQ(sampling.mirostat_tau, 4);
  EXPECT_EQ(sampling.mirostat_eta, 0.5F);
  EXPECT_EQ(sampling.order, (std::vector<SamplerStage>{SamplerStage::kTopK, SamplerStage::kTemperature}));
  EXPECT_EQ(sampling.repetition_penalty, 1.5F);
  EXPECT_EQ(sampling.presence_penalty, -0.5F);
  EXPECT_EQ(sampling.frequency_penalty, 0.25F);
  EXPECT_EQ(sampling.penalty_last_n, -1);
  EXPECT_EQ(sampling.no_repeat_ngram_size, 3);
  EXPECT_EQ(sampling.dry_multiplier, 0.5F);
  EXPECT_EQ(sampling.dry_base, 2);
  EXPECT_EQ(sampling.dry_allowed_length, 4);
  EXPECT_EQ(sampling.dry_penalty_last_n, 100);
  EXPECT_EQ(settings.dry_sequence_breakers, (std::vector<std::string>{".", "!"}));
  ASSERT_EQ(sampling.logit_bias.size(), 5u);
  EXPECT_EQ(sampling.logit_bias[0].token, 12);
  EXPECT_EQ(sampling.logit_bias[0].bias, 1.5F);
  EXPECT_EQ(sampling.logit_bias[1].bias, -2);
  for (size_t i = 2; i < 5; ++i) EXPECT_EQ(sampling.logit_bias[i].bias, -INFINITY);
  EXPECT_EQ(sampling.seed, 9u);
  EXPECT_EQ(sampling.top_log_probabilities, 2);
  EXPECT_EQ(settings.max_tokens, 11);
  EXPECT_EQ(settings.min_length_tokens, 5);
  EXPECT_EQ(settings.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(settings.prompt_lookup.max_draft_tokens, 6);
  EXPECT_EQ(settings.prompt_lookup.max_ngram, 2);
}

TEST(SamplingFlagsTest, KnobsOfTheSearch) {
  const GenerationSettings settings = Resolve({{"num-beams", "4"},
                                               {"num-return-sequences", "2"},
                                               {"length-penalty", "0.5"},
                                               {"early-stopping", "off"},
                                               {"repeat-penalty", "1.25"},
                                               {"no-repeat-ngram", "2"}})
                                          .value();
  EXPECT_TRUE(settings.searches());
  EXPECT_EQ(settings.beams.num_beams, 4);
  EXPECT_EQ(settings.beams.num_return_sequences, 2);
  EXPECT_EQ(settings.beams.length_penalty, 0.5F);
  EXPECT_FALSE(settings.beams.early_stopping);
  EXPECT_EQ(settings.beams.repetition_penalty, 1.25F);
  EXPECT_EQ(settings.beams.no_repeat_ngram_size, 2);
}

TEST(SamplingFlagsTest, TheModelsFilesSayWhatFlagsDoNot) {
  SamplingDefaults defaults;
  defaults.do_sample = false;
  defaults.num_beams = 3;
  defaults.length_penalty = 2.0F;
  defaults.max_length = 100;
  defaults.min_length = 7;
  defaults.random_seed = 5;
  const GenerationSettings from_files = Resolve({}, defaults).value();
  EXPECT_EQ(from_files.sampling.temperature, 0);
  EXPECT_EQ(from_files.beams.num_beams, 3);
  EXPECT_EQ(from_files.beams.length_penalty, 2);
  EXPECT_EQ(from_files.max_length_tokens, 100);
  EXPECT_EQ(from_files.min_length_tokens, 7);
  EXPECT_EQ(from_files.sampling.seed, 5u);
  const GenerationSettings with_flags = Resolve({{"num-beams", "1"}, {"max-tokens", "9"}}, defaults).value();
  EXPECT_FALSE(with_flags.searches());
  EXPECT_EQ(with_flags.max_length_tokens, 0);
  EXPECT_EQ(with_flags.max_tokens, 9);
}

TEST(SamplingFlagsTest, MistakesNameTheFlag) {
  const auto mistake = [](const std::string& name, const std::string& value, const char* text) {
    const Status status = Resolve({{name, value}}).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(status.message(), HasSubstr(text));
  };
  mistake("top-p", "1.5", "--top-p: expected a number from 0 to 1, found '1.5'");
  mistake("top-k", "-1", "--top-k");
  mistake("typical-p", "nan", "--typical-p");
  mistake("repeat-last-n", "-2", "--repeat-last-n");
  mistake("mirostat", "1", "--mirostat: expected 2");
  mistake("samplers", "top_k,topp", "--samplers: sampler order: 'topp' is no sampler");
  mistake("samplers", "top_k,top_k", "named twice");
  for (const char* bias : {"", "x", "12", "12*3", "12+", "12+x", "-1+2", "12=nan", "99999999999+1"})
    mistake("logit-bias", bias, "--logit-bias");
  mistake("early-stopping", "maybe", "--early-stopping");
  mistake("num-return-sequences", "2", "--num-return-sequences");
  mistake("no-such-knob", "1", "there is no setting 'no-such-knob'; there are: max-tokens");
  const Status excluded = Resolve({{"num-beams", "2"}, {"top-p", "0.5"}}).status();
  EXPECT_THAT(excluded.message(), HasSubstr("--top-p has no meaning for a search with 2 beams"));
  EXPECT_FALSE(Resolve({{"num-beams", "2"}, {"prompt-lookup", "3"}}).ok());
  EXPECT_TRUE(Resolve({{"num-beams", "2"}, {"temperature", "0"}}).ok());
}

TEST(SamplingFlagsTest, TheDescriptionCanBeGivenBack) {
  const GenerationSettings settings =
      Resolve({{"typical-p", "0.5"}, {"mirostat", "2"}, {"samplers", "top_p,top_k"}, {"seed", "3"}}).value();
  std::istringstream lines(DescribeSampling(settings));
  SamplingFlags flags;
  for (std::string line; std::getline(lines, line);) {
    const size_t space = line.find(' ');
    const std::string name = line.substr(0, space);
    if (name == "max-tokens") continue;  // "until the context is full"
    EXPECT_TRUE(SetSamplingFlag(flags, name, line.substr(space + 1)).ok()) << line;
  }
  const GenerationSettings again = ResolveSampling(flags, {}).value();
  EXPECT_EQ(again.sampling.typical_p, 0.5F);
  EXPECT_TRUE(again.sampling.mirostat);
  EXPECT_EQ(again.sampling.order, settings.sampling.order);
  EXPECT_EQ(again.sampling.seed, 3u);
}

// --- The command.

TEST(RunSamplingTest, PromptLookupChangesNothingButTheSpeed) {
  std::vector<std::string> arguments{"run",   Tales(),        "one two three one two three one two",
                                     "--raw", "--json",       "--temperature",
                                     "0",     "--max-tokens", "40"};
  const auto summary = [&] {
    const CommandOutcome outcome = RunLamina(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.standard_error;
    const std::string& text = outcome.standard_output;
    return nlohmann::json::parse(text.substr(text.rfind('\n', text.size() - 2) + 1));
  };
  const nlohmann::json plain = summary();
  arguments.insert(arguments.end(), {"--prompt-lookup", "5"});
  const nlohmann::json looked_up = summary();
  EXPECT_EQ(looked_up["tokens"], plain["tokens"]);
  EXPECT_GT(looked_up["drafted_tokens"], 0);
  EXPECT_FALSE(plain.contains("drafted_tokens"));
}

TEST(RunSamplingTest, BeamsAreSearchedAndPrinted) {
  const CommandOutcome json = RunLamina({"run", Tales(), "Once upon a time", "--raw", "--json", "--num-beams",
                                         "3", "--num-return-sequences", "2", "--max-tokens", "6"});
  ASSERT_EQ(json.exit_code, 0) << json.standard_error;
  const std::string& text = json.standard_output;
  const auto summary = nlohmann::json::parse(text.substr(text.rfind('\n', text.size() - 2) + 1));
  ASSERT_EQ(summary["sequences"].size(), 2u);
  EXPECT_GE(summary["sequences"][0]["score"], summary["sequences"][1]["score"]);
  EXPECT_EQ(summary["sequences"][0]["tokens"], summary["tokens"]);
  const CommandOutcome plain = RunLamina({"run", Tales(), "Once upon a time", "--raw", "--num-beams", "3",
                                          "--num-return-sequences", "2", "--max-tokens", "6"});
  EXPECT_EQ(plain.standard_output, summary["sequences"][0]["text"].get<std::string>() + "\n\n" +
                                       summary["sequences"][1]["text"].get<std::string>() + "\n");
}

TEST(RunSamplingTest, LogProbabilitiesStandInTheSummary) {
  const CommandOutcome outcome = RunLamina({"run", Tales(), "Once upon a time", "--raw", "--json",
                                            "--logprobs", "2", "--max-tokens", "3", "--temperature", "0"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.standard_error;
  const std::string& text = outcome.standard_output;
  const auto summary = nlohmann::json::parse(text.substr(text.rfind('\n', text.size() - 2) + 1));
  ASSERT_EQ(summary["logprobs"].size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const nlohmann::json& token = summary["logprobs"][i];
    EXPECT_EQ(token["id"], summary["tokens"][i]);
    ASSERT_EQ(token["top_logprobs"].size(), 2u);
    EXPECT_EQ(token["top_logprobs"][0]["logprob"], token["logprob"]);
    EXPECT_LE(token["top_logprobs"][1]["logprob"], token["logprob"]);
    EXPECT_LE(token["logprob"], 0);
  }
  const CommandOutcome without = RunLamina({"run", Tales(), "x", "--logprobs", "2"});
  EXPECT_EQ(without.exit_code, 1);
  EXPECT_THAT(without.standard_error, HasSubstr("--json"));
}

TEST(RunSamplingTest, TheWholeChainRunsAndASeedRepeatsIt) {
  const auto answer = [](std::vector<std::string> more) {
    std::vector<std::string> arguments{
        "run", Tales(), "Tell me a story.", "--temperature", "0.9", "--max-tokens", "16", "--seed", "4"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CommandOutcome outcome = RunLamina(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.standard_error;
    return outcome.standard_output;
  };
  const std::vector<std::string> chain{
      "--typical-p",        "0.9",  "--top-n-sigma",       "2",   "--dry-multiplier",      "0.8",
      "--xtc-probability",  "0.5",  "--xtc-threshold",     "0.2", "--dynamic-temperature", "0.3",
      "--mirostat",         "2",    "--no-repeat-ngram",   "4",   "--logit-bias",          "17+0.5",
      "--presence-penalty", "-0.1", "--frequency-penalty", "0.2", "--repeat-last-n",       "-1"};
  EXPECT_EQ(answer(chain), answer(chain));
  // Token 15 is the comma; banned, it does not come.
  EXPECT_THAT(answer({"--logit-bias", "15=-inf"}), ::testing::Not(HasSubstr(",")));
  EXPECT_EQ(answer({"--samplers", "top_k", "--top-k", "1"}), answer({"--temperature", "0"}));
}

TEST(RunSamplingTest, MistakesEndWithOne) {
  const auto fails = [](std::vector<std::string> arguments, const char* text) {
    arguments.insert(arguments.begin(), {"run", Tales(), "x"});
    const CommandOutcome outcome = RunLamina(arguments);
    EXPECT_EQ(outcome.exit_code, 1) << outcome.standard_error;
    EXPECT_THAT(outcome.standard_error, HasSubstr(text));
    EXPECT_THAT(outcome.standard_output, IsEmpty());
  };
  fails({"--samplers", "top_q"}, "top_q");
  fails({"--logit-bias", "a"}, "--logit-bias");
  fails({"--num-beams", "2", "--top-k", "3"}, "--top-k has no meaning");
  fails({"--num-beams", "0"}, "--num-beams");
  fails({"--prompt-lookup", "-3"}, "--prompt-lookup");
}

}  // namespace
}  // namespace lamina::cli
