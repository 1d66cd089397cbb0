// Every component of tokenizer.json, each in a small tokenizer of its own, against recorded answers of the
// reference library (written by differential/components.mjs).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "support/test_data.h"
#include "text/reference_comparison.h"
#include "text/tokenizer.h"

namespace lamina {
namespace {

TEST(Components, EqualTheReference) {
  std::ifstream file(testing::SourcePath("tests/text/data/components.jsonl"));
  std::optional<Tokenizer> tokenizer;
  std::optional<testing::ReferenceComparison> comparison;
  int tokenizers = 0;
  for (std::string text; std::getline(file, text);) {
    const nlohmann::json line = nlohmann::json::parse(text);
    if (!line.contains("tokenizer")) {
      if (comparison) comparison->CompareLine(line);
      continue;
    }
    ++tokenizers;
    comparison.reset();
    const auto loaded = Tokenizer::FromJson(line["tokenizer"].get<std::string>());
    EXPECT_TRUE(loaded.ok()) << line["name"] << ": " << loaded.status().ToString();
    if (!loaded.ok()) continue;
    tokenizer.emplace(*loaded);
    comparison.emplace(*tokenizer, line["name"].get<std::string>());
  }
  EXPECT_GT(tokenizers, 150);
}

}  // namespace
}  // namespace lamina
