#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/subprocess.h"
#include "support/test_data.h"

namespace lamina {
namespace {

using nlohmann::json;
using testing::CommandOutcome;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::RunLamina;
using testing::SourcePath;

const std::string kDevice = "gpu:0=memory=1GiB,granularity=4KiB,name=small,vendor=sim,provider=described";

std::vector<std::string> PlanArguments(const std::string& model) {
  return {"plan", SourcePath(model), "--device", kDevice, "--gpu-memory", "400KiB", "--context", "256"};
}

CommandOutcome Plan(const std::string& model, std::vector<std::string> more) {
  std::vector<std::string> arguments = PlanArguments(model);
  arguments.insert(arguments.end(), more.begin(), more.end());
  return RunLamina(arguments);
}

TEST(PlanTest, TablesForAPerson) {
  const CommandOutcome outcome = Plan("tests/data/zoo/llama-fp32", {});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.standard_error;
  for (const char* text :
       {"context 256 tokens", "gpu:0", "cpu", "weights", "KV cache", "budget", "400 KiB",
        "layers, from node names", "layers.0", "fits the budget", "left out", "the smallest unit left out is",
        "what more memory would hold", "values that cross between devices", "prefill", "decode", "1.000"}) {
    EXPECT_THAT(outcome.standard_output, HasSubstr(text));
  }
}

// With LAMINA_UPDATE_GOLDEN set the files are written anew.
TEST(PlanTest, JsonIsWhatItWas) {
  for (const char* name : {"llama-fp32", "gptoss-fp32", "qwen2-torch-script"}) {
    const std::string model = std::string("tests/data/zoo/") + name;
    const CommandOutcome outcome = Plan(model, {"--json"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.standard_error;
    const std::string golden = SourcePath(std::string("tests/cli/golden/plan-") + name + ".json");
    if (std::getenv("LAMINA_UPDATE_GOLDEN")) testing::WriteWholeFile(golden, outcome.standard_output);
    EXPECT_EQ(outcome.standard_output, testing::ReadWholeFile(golden))
        << "run the test with LAMINA_UPDATE_GOLDEN=1 where the change is meant";
  }
}

TEST(PlanTest, JsonHasEveryKey) {
  const CommandOutcome outcome = Plan("tests/data/zoo/llama-fp32", {"--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.standard_error;
  const json plan = json::parse(outcome.standard_output);
  for (const char* key : {"devices", "layers", "weights", "cut_edges", "fallbacks", "rules", "offsets",
                          "bounds", "estimates", "unplaced"}) {
    EXPECT_TRUE(plan.contains(key)) << key;
  }
  EXPECT_EQ(plan["bounds"], (json{{"context", 256}, {"batch", 1}, {"prefill_chunk", 512}}));
  for (const char* key :
       {"name", "budget_bytes", "weights_bytes", "kv_cache_bytes", "execution_bytes", "activations_bytes",
        "workspace_bytes", "staging_bytes", "slots", "total_bytes", "granularity_bytes", "allocated_bytes"}) {
    EXPECT_TRUE(plan["devices"][0].contains(key)) << key;
  }
  for (const char* key : {"mapped_bytes", "private_bytes", "pinned_bytes"}) {
    EXPECT_TRUE(plan["devices"][1].contains(key)) << key;
  }
  for (const json& layout : plan["offsets"]) EXPECT_EQ(layout["ratio"], 1.0);
}

TEST(PlanTest, NeedsNoWeights) {
  testing::TempDir folder;
  std::filesystem::copy_file(SourcePath("tests/data/zoo/llama-fp32/model.onnx"), folder.File("model.onnx"));
  const CommandOutcome outcome =
      RunLamina({"plan", folder.File("model.onnx"), "--device", "gpu:0=l4", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.standard_error;
  EXPECT_TRUE(json::parse(outcome.standard_output)["unplaced"].is_null());
}

TEST(PlanTest, PageStandsAlone) {
  testing::TempDir folder;
  const CommandOutcome outcome = Plan("tests/data/zoo/llama-fp32", {"--html", folder.File("plan.html")});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.standard_error;
  const std::string page = testing::ReadWholeFile(folder.File("plan.html"));
  EXPECT_THAT(page, HasSubstr("<svg class=\"map\""));
  EXPECT_THAT(page, HasSubstr("<svg class=\"strip\""));
  EXPECT_THAT(page, HasSubstr("<title>layers.0:"));
  EXPECT_THAT(page, Not(HasSubstr("src=")));
  EXPECT_THAT(page, Not(HasSubstr("href=")));
}

TEST(PlanTest, TooSmallIsAnErrorOnlyForAll) {
  const CommandOutcome fits = Plan("tests/data/zoo/llama-fp32", {});
  EXPECT_EQ(fits.exit_code, 0);
  const CommandOutcome all = Plan("tests/data/zoo/llama-fp32", {"--gpu-layers", "all"});
  EXPECT_EQ(all.exit_code, 1);
  EXPECT_THAT(all.standard_error, HasSubstr("gpu:0: the plan needs"));
  EXPECT_THAT(all.standard_error, HasSubstr("are missing"));
}

TEST(PlanTest, BadFlagsAreNamed) {
  const auto error = [](std::vector<std::string> arguments, int exit_code = 1) {
    arguments.insert(arguments.begin(), {"plan", SourcePath("models/tales")});
    const CommandOutcome outcome = RunLamina(arguments);
    EXPECT_EQ(outcome.exit_code, exit_code);
    return outcome.standard_error;
  };
  EXPECT_THAT(error({"--device", "gpu:0=voodoo"}), HasSubstr("no device preset 'voodoo'"));
  EXPECT_THAT(error({"--device", "gpu:0=l4", "--gpu-memory", "lots"}), HasSubstr("lots"));
  EXPECT_THAT(error({"--device", "gpu:0=l4", "--gpu-layers", "few"}, 2), HasSubstr("few"));
}

// --- Layer rules ---

CommandOutcome PlanWithRules(const std::string& rules, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"plan", SourcePath("tests/data/zoo/llama-fp32"), "--device", kDevice});
  more.insert(more.end(), {"--option", "session.name_based_layer_assignment=" + rules});
  return RunLamina(more);
}

TEST(PlanRulesTest, EveryRuleHasItsNodesAndWhatIsWrongWithIt) {
  const CommandOutcome outcome = PlanWithRules(
      "gpu:0(layers.[0-1]/); cpu(layers.1/attn, layers.1/attn/GroupQuery, elsewhere)", {"--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.standard_error;
  EXPECT_EQ(outcome.standard_error, "") << "what is in the output is not said twice";
  const json rules = json::parse(outcome.standard_output)["rules"];
  ASSERT_EQ(rules.size(), 4u);
  for (const json& rule : rules) {
    EXPECT_EQ(rule.size(), 3u);
    for (const char* key : {"text", "nodes", "note"}) EXPECT_TRUE(rule.contains(key)) << key;
  }
  EXPECT_EQ(rules[0]["text"], "gpu:0(layers.[0-1]/)");
  EXPECT_GT(rules[0]["nodes"], 5);
  EXPECT_EQ(rules[0]["note"], "");
  EXPECT_GT(rules[1]["nodes"], 0);
  EXPECT_EQ(rules[2]["nodes"], 1);
  EXPECT_EQ(rules[3], (json{{"text", "cpu(elsewhere)"}, {"nodes", 0}, {"note", "matched nothing"}}));
}

TEST(PlanRulesTest, RulesThatNeverWinAreNamedWithTheWinner) {
  const CommandOutcome by_name = PlanWithRules("gpu:0(GroupQuery); cpu(GroupQueryAttention)");
  ASSERT_EQ(by_name.exit_code, 0) << by_name.standard_error;
  EXPECT_THAT(by_name.standard_output,
              HasSubstr("warning: layer rule gpu:0(GroupQuery): never wins: cpu(GroupQueryAttention) comes"));
  const CommandOutcome by_annotation = Plan(
      "tests/data/zoo/llama-fp32", {"--option", "session.layer_assignment_settings=cpu(a, =a); gpu:0(ab)"});
  ASSERT_EQ(by_annotation.exit_code, 0) << by_annotation.standard_error;
  EXPECT_THAT(by_annotation.standard_output, HasSubstr("cpu(=a): can never win: cpu(a) comes first"));
  EXPECT_THAT(by_annotation.standard_output, HasSubstr("gpu:0(ab): can never win: cpu(a) comes first"));
}

TEST(PlanRulesTest, MalformedRulesAndUnknownDevicesAreErrors) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"gpu:0(a),cpu(b)", "entries are separated by ';'"},
      {"gpu:0(a) b", "stands after ')'"},
      {"gpu:0(a", "there is no ')'"},
      {"(a)", "the device is missing"},
      {"gpu:0(a); cpu(a)", "was given before"},
      {"gpu:0(=a)", "take no '='"},
      {"gpu:0(layers.[3-1])", "ends before it begins"},
      {"gpu:4(a)", "no device answers to 'gpu:4'; present are: gpu:0"},
      {"tpu(a)", "no device answers to 'tpu'"}};
  for (const auto& [rules, text] : wrong) {
    const CommandOutcome outcome = PlanWithRules(rules);
    EXPECT_EQ(outcome.exit_code, 1) << rules;
    EXPECT_THAT(outcome.standard_error, HasSubstr(text)) << rules;
  }
  const CommandOutcome allowed =
      PlanWithRules("tpu(layers.0)", {"--option", "session.allow_unmatched_layer_devices=1"});
  EXPECT_EQ(allowed.exit_code, 0) << allowed.standard_error;
  EXPECT_THAT(allowed.standard_output, HasSubstr("layer rule tpu(layers.0): no device answers to 'tpu'"));
  const CommandOutcome both =
      PlanWithRules("cpu(a)", {"--option", "session.layer_assignment_settings=cpu(a)"});
  EXPECT_EQ(both.exit_code, 1);
  EXPECT_THAT(both.standard_error, HasSubstr("exclude each other"));
}

TEST(PlanTest, LargestContextKeepsThePlacement) {
  const CommandOutcome outcome = RunLamina({"plan", SourcePath("models/tales"), "--device", kDevice,
                                            "--gpu-memory", "1GiB", "--context", "max", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.standard_error;
  EXPECT_EQ(json::parse(outcome.standard_output)["bounds"]["context"], 1024);
}

TEST(PlanTest, BenchTimesIt) {
  const CommandOutcome outcome =
      RunLamina({"bench", "plan", SourcePath("models/tales"), "--device", kDevice, "--repeat", "1"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.standard_error;
  EXPECT_THAT(outcome.standard_output, HasSubstr("nodes: parse "));
}

}  // namespace
}  // namespace lamina
