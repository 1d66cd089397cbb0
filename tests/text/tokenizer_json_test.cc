// Reading tokenizer.json: what is refused and how, limits, robustness. What components do is
// components_test.cc.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "text/tokenizer.h"

namespace lamina {
namespace {

nlohmann::json WordLevel() {
  return {{"version", "1.0"},
          {"added_tokens", nlohmann::json::array()},
          {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
          {"model",
           {{"type", "WordLevel"}, {"vocab", {{"a", 0}, {"b", 1}, {"[UNK]", 2}}}, {"unk_token", "[UNK]"}}}};
}

nlohmann::json With(nlohmann::json json, const char* key, nlohmann::json value) {
  json[key] = std::move(value);
  return json;
}

Status LoadStatus(const nlohmann::json& json) { return Tokenizer::FromJson(json.dump(), "x.json").status(); }

TEST(TokenizerJson, UnknownComponentsAreNamed) {
  for (const char* part : {"normalizer", "pre_tokenizer", "post_processor", "decoder"}) {
    const Status status = LoadStatus(With(WordLevel(), part, {{"type", "Frobnicate"}}));
    EXPECT_EQ(status.code(), StatusCode::kUnsupported) << part;
    EXPECT_NE(status.message().find(part), std::string::npos) << status.ToString();
    EXPECT_NE(status.message().find("Frobnicate"), std::string::npos) << status.ToString();
    EXPECT_NE(status.message().find("x.json"), std::string::npos) << status.ToString();
  }
  nlohmann::json json = WordLevel();
  json["model"]["type"] = "Frobnicate";
  EXPECT_EQ(LoadStatus(json).code(), StatusCode::kUnsupported);
  EXPECT_EQ(LoadStatus(With(WordLevel(), "version", "2.0")).code(), StatusCode::kUnsupported);
  const nlohmann::json nested = {{"type", "Sequence"},
                                 {"normalizers", {{{"type", "NFC"}}, {{"type", "Frobnicate"}}}}};
  EXPECT_EQ(LoadStatus(With(WordLevel(), "normalizer", nested)).code(), StatusCode::kUnsupported);
}

TEST(TokenizerJson, MissingAndWrongFieldsAreNamed) {
  const auto expect_invalid = [](const nlohmann::json& json, const char* named) {
    const Status status = LoadStatus(json);
    EXPECT_EQ(status.code(), StatusCode::kInvalidModel) << status.ToString();
    EXPECT_NE(status.message().find(named), std::string::npos) << status.ToString();
  };
  expect_invalid(With(WordLevel(), "normalizer", {{"type", "Strip"}}), "strip_left");
  expect_invalid(With(WordLevel(), "normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "!"}}),
                 "base64");
  expect_invalid(
      With(WordLevel(), "normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "/////w=="}}),
      "charsmap");
  expect_invalid(With(WordLevel(), "normalizer", "NFC"), "normalizer");
  expect_invalid(With(WordLevel(), "pre_tokenizer", {{"type", "Digits"}}), "individual_digits");
  expect_invalid(With(WordLevel(), "pre_tokenizer", {{"type", "Punctuation"}, {"behavior", "Loud"}}), "Loud");
  expect_invalid(With(WordLevel(), "pre_tokenizer",
                      {{"type", "Split"}, {"behavior", "Removed"}, {"pattern", {{"Regex", "("}}}}),
                 "(");
  expect_invalid(With(WordLevel(), "pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "ab"}}),
                 "replacement");
  expect_invalid(With(WordLevel(), "decoder", {{"type", "Strip"}, {"content", " "}}), "start");
  expect_invalid(With(WordLevel(), "truncation", {{"stride", 0}}), "max_length");
  expect_invalid(With(WordLevel(), "padding", {{"strategy", "Sometimes"}}), "strategy");
  expect_invalid(With(WordLevel(), "added_tokens", {{{"id", 3}}}), "content");
  nlohmann::json json = WordLevel();
  json["model"].erase("vocab");
  expect_invalid(json, "vocab");
  json = WordLevel();
  json.erase("model");
  expect_invalid(json, "model");
  json = WordLevel();
  json["model"]["vocab"]["big"] = 4'000'000'000u;
  expect_invalid(json, "4000000000");
  json["model"] = {{"type", "BPE"}, {"vocab", {{"a", 0}}}, {"merges", {"a b"}}};
  expect_invalid(json, "'b'");
  json["model"]["merges"] = {"a"};
  expect_invalid(json, "'a'");
}

TEST(TokenizerJson, AModelWithoutTheUnknownTokenFailsWhereItIsNeeded) {
  nlohmann::json json = WordLevel();
  json["model"]["unk_token"] = "nowhere";
  const auto tokenizer = Tokenizer::FromJson(json.dump());
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_TRUE(tokenizer->Encode("a b").ok());
  const auto ids = tokenizer->Encode("a c");
  ASSERT_FALSE(ids.ok());
  EXPECT_NE(ids.status().message().find("nowhere"), std::string::npos);
}

TEST(TokenizerJson, ReadsTruncationAndPadding) {
  nlohmann::json json = WordLevel();
  json["truncation"] = {
      {"max_length", 2}, {"direction", "Left"}, {"strategy", "LongestFirst"}, {"stride", 0}};
  json["padding"] = {
      {"strategy", {{"Fixed", 4}}}, {"direction", "Left"}, {"pad_to_multiple_of", nullptr}, {"pad_id", 1},
      {"pad_type_id", 0},           {"pad_token", "b"}};
  const Tokenizer tokenizer = *Tokenizer::FromJson(json.dump());
  ASSERT_TRUE(tokenizer.truncation());
  EXPECT_EQ(tokenizer.truncation()->max_tokens, 2u);
  EXPECT_TRUE(tokenizer.truncation()->from_left);
  ASSERT_TRUE(tokenizer.padding());
  EXPECT_EQ(tokenizer.padding()->fixed_tokens, 4u);
  EXPECT_EQ(*tokenizer.Encode("a b a"), (std::vector<TokenId>{0, 1, 0}));
  const Encoding encoding = *tokenizer.EncodeWithDetails("a b a", {.truncate_and_pad = true});
  EXPECT_EQ(encoding.ids, (std::vector<TokenId>{1, 1, 1, 0}));
  EXPECT_EQ(encoding.pieces, (std::vector<std::string>{"b", "b", "b", "a"}));
  EXPECT_EQ(encoding.special, (std::vector<bool>{true, true, false, false}));
}

TEST(TokenizerJson, SpecialTokensCanBeReadAsText) {
  nlohmann::json json = WordLevel();
  json["added_tokens"] = {{{"id", 3}, {"content", "<|x|>"}, {"special", true}, {"normalized", false}},
                          {{"id", 4}, {"content", "<tool>"}, {"special", false}, {"normalized", false}}};
  const Tokenizer tokenizer = *Tokenizer::FromJson(json.dump());
  EXPECT_EQ(*tokenizer.Encode("a<|x|><tool>"), (std::vector<TokenId>{0, 3, 4}));
  EXPECT_EQ(*tokenizer.Encode("a<|x|><tool>", {.special_tokens_as_text = true}),
            (std::vector<TokenId>{2, 4}));
  EXPECT_TRUE(tokenizer.IsSpecial(3));
  EXPECT_FALSE(tokenizer.IsSpecial(4));
  EXPECT_FALSE(tokenizer.IsSpecial(99));
  EXPECT_EQ(tokenizer.TokenToId("<|x|>"), 3);
  EXPECT_EQ(tokenizer.IdToToken(1), "b");
  EXPECT_EQ(tokenizer.IdToToken(-1), std::nullopt);
  EXPECT_EQ(tokenizer.id_limit(), 5u);
  EXPECT_EQ(tokenizer.vocabulary_size(), 5u);
  EXPECT_EQ(*tokenizer.CountTokens("a b c"), 3u);
  EXPECT_EQ(*tokenizer.Decode(std::vector<TokenId>{0, 3, 1}, {.skip_special_tokens = true}), "a b");
}

TEST(TokenizerJson, InvalidUtf8IsReplacedAndSpansReferToWhatWasGiven) {
  nlohmann::json json = WordLevel();
  json["model"] = {{"type", "Unigram"}, {"unk_id", 0}};
  json["model"]["vocab"] = nlohmann::json::parse(R"([["<unk>", 0.0]])");
  const auto loaded = Tokenizer::FromJson(json.dump());
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  const Tokenizer& tokenizer = *loaded;
  const Encoding encoding = *tokenizer.EncodeWithDetails("ab \xE4\xBD\xFF c");
  EXPECT_EQ(encoding.pieces, (std::vector<std::string>{"ab", "\uFFFD\uFFFD", "c"}));
  EXPECT_EQ(encoding.spans, (std::vector<Encoding::Span>{{0, 2}, {3, 6}, {7, 8}}));
}

TEST(TokenizerJson, MayBeUsedByManyThreads) {
  nlohmann::json json = WordLevel();
  json["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  json["model"] = {{"type", "BPE"},
                   {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}, {"c", 3}, {"abc", 4}}},
                   {"merges", {"a b", "ab c"}}};
  const Tokenizer tokenizer = *Tokenizer::FromJson(json.dump());
  std::string text;
  for (int i = 0; i < 200; ++i) text += "abc";
  const std::vector<TokenId> expected = *tokenizer.Encode(text);
  std::vector<std::thread> threads;
  std::vector<int> equal(4);
  threads.reserve(equal.size());
  for (int& count : equal) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        const bool both =
            *tokenizer.Encode(text) == expected && *tokenizer.Encode("abc") == std::vector<TokenId>{4};
        count += both ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(equal, std::vector<int>(4, 50));
}

TEST(TokenizerJson, LongTextsTakeLinearTime) {
  nlohmann::json json = WordLevel();
  json.erase("pre_tokenizer");
  json["model"] = {
      {"type", "BPE"}, {"vocab", {{"a", 0}, {"aa", 1}, {"aaaa", 2}}}, {"merges", {"a a", "aa aa"}}};
  const Tokenizer tokenizer = *Tokenizer::FromJson(json.dump());
  // A quadratic merge would take hours.
  EXPECT_EQ(tokenizer.Encode(std::string(1 << 20, 'a'))->size(), size_t{1} << 18);
}

// A tokenizer that has something of everything, for damaging it.
std::string RichTokenizer() {
  nlohmann::json json = WordLevel();
  json["added_tokens"] = {
      {{"id", 3}, {"content", "<|x|>"}, {"special", true}, {"normalized", false}, {"rstrip", true}}};
  json["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers",
       {{{"type", "NFC"}}, {{"type", "Replace"}, {"pattern", {{"Regex", "\\s+"}}}, {"content", " "}}}}};
  json["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers",
                            {{{"type", "Split"},
                              {"pattern", {{"Regex", "[^\\r\\n\\p{L}]?\\p{L}+|\\s+"}}},
                              {"behavior", "Isolated"},
                              {"invert", false}},
                             {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"use_regex", false}}}}};
  json["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single",
       {{{"SpecialToken", {{"id", "b"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"special_tokens", {{"b", {{"id", "b"}, {"ids", {1}}, {"tokens", {"b"}}}}}}};
  json["decoder"] = {{"type", "Sequence"},
                     {"decoders",
                      {{{"type", "ByteFallback"}},
                       {{"type", "Fuse"}},
                       {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  json["model"] = {{"type", "BPE"},
                   {"unk_token", "[UNK]"},
                   {"fuse_unk", true},
                   {"byte_fallback", true},
                   {"vocab", {{"a", 0}, {"b", 1}, {"[UNK]", 2}, {"ab", 3}, {"Ġ", 4}}},
                   {"merges", {"a b", {"Ġ", "a"}}}};
  json["model"]["vocab"]["Ġa"] = 5;
  return json.dump();
}

void UseIfLoaded(const std::string& json) {
  const auto tokenizer = Tokenizer::FromJson(json);
  if (!tokenizer.ok()) return;
  const auto ids =
      tokenizer->Encode("ab <|x|>  caf\u00e9 \xFF", {.add_special_tokens = true, .truncate_and_pad = true});
  if (ids.ok() && ids->size() < 100'000) (void)tokenizer->Decode(*ids);
  (void)tokenizer->EncodeWithDetails("a\u0301 b");
}

void Damage(uint32_t seed, int rounds) {
  const std::string rich = RichTokenizer();
  ASSERT_TRUE(Tokenizer::FromJson(rich).ok()) << Tokenizer::FromJson(rich).status().ToString();
  std::mt19937 random(seed);
  const std::string bytes = "{}[]\",:\\0129-.eaunltrfs \xFF\x80\n";
  for (int round = 0; round < rounds; ++round) {
    std::string json = rich;
    for (uint32_t change = 0; change <= random() % 3; ++change) {
      const size_t at = random() % json.size();
      switch (random() % 4) {
        case 0:
          json[at] = bytes[random() % bytes.size()];
          break;
        case 1:
          json.erase(at, 1 + random() % 20);
          break;
        case 2:
          json.insert(at, json.substr(random() % json.size(), random() % 40));
          break;
        default:
          json.insert(at, 1, bytes[random() % bytes.size()]);
      }
      if (json.empty()) break;
    }
    UseIfLoaded(json);
  }
}

TEST(TokenizerJson, DamagedFilesAreRefusedOrWork) { Damage(1, 1500); }
TEST(TokenizerJsonFull, DamagedFilesAreRefusedOrWork) { Damage(2, 200'000); }

TEST(TokenizerJson, FilesThatAreNotUtf8AreRefused) {
  for (const std::string& json :
       {std::string("{\"model\": {\"x\xFF\": 1, \"type\": \"WordLevel\", \"vocab\": {\"a\": 0}}}"),
        std::string("{\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"a\xFF\": 0}}}"),
        std::string("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"\xC3 b\"]}}"),
        std::string("{\"version\": \"\xE4\xBD\", \"model\": [}")}) {
    const Result<Tokenizer> tokenizer = Tokenizer::FromJson(json);
    ASSERT_FALSE(tokenizer.ok()) << json;
    EXPECT_EQ(tokenizer.status().code(), StatusCode::kInvalidModel);
    EXPECT_NE(tokenizer.status().message().find("not valid UTF-8"), std::string::npos)
        << tokenizer.status().ToString();
  }
}

TEST(TokenizerJson, TruncatedFilesAreRefused) {
  const std::string rich = RichTokenizer();
  for (size_t length = 0; length < rich.size(); ++length) {
    EXPECT_FALSE(Tokenizer::FromJson(std::string_view(rich).substr(0, length)).ok()) << length;
  }
}

}  // namespace
}  // namespace lamina
