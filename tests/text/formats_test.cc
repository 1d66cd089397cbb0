// Finding a folder's tokenizer, tiktoken files, the older vocabularies, configuration files.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/test_data.h"
#include "text/tokenizer.h"

namespace lamina {
namespace {

using Ids = std::vector<TokenId>;
using Strings = std::vector<std::string>;

class FormatsTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& content) {
    testing::WriteWholeFile(folder_.File(name), content);
  }
  Result<Tokenizer> Load(const std::string& name = "") {
    return Tokenizer::Load(name.empty() ? folder_.path() : folder_.File(name));
  }
  testing::TempDir folder_;
};

constexpr char kWordLevel[] =
    R"({"model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1, "[UNK]": 2}, "unk_token": "[UNK]"},
        "pre_tokenizer": {"type": "WhitespaceSplit"}})";

TEST_F(FormatsTest, AFolderWithoutATokenizerIsNotFound) {
  EXPECT_EQ(Load().status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Load("absent.json").status().code(), StatusCode::kNotFound);
  EXPECT_NE(Load().status().message().find(folder_.path()), std::string::npos);
}

TEST_F(FormatsTest, ConfigurationNamesTheRoles) {
  Write("tokenizer.json", kWordLevel);
  Write("tokenizer_config.json",
        R"({"bos_token": "a", "eos_token": {"content": "b"}, "pad_token": null, "add_bos_token": true})");
  Write("special_tokens_map.json",
        R"({"eos_token": "a", "unk_token": "[UNK]", "additional_special_tokens": ["b", "nowhere"]})");
  Write("added_tokens.json", R"({"<|new|>": 7})");
  for (const char* name : {"", "tokenizer.json"}) {
    const Tokenizer tokenizer = *Load(name);
    EXPECT_EQ(tokenizer.roles().bos, 0);
    EXPECT_EQ(tokenizer.roles().eos, 1);  // tokenizer_config.json comes first
    EXPECT_EQ(tokenizer.roles().unk, 2);
    EXPECT_EQ(tokenizer.roles().pad, std::nullopt);
    EXPECT_EQ(tokenizer.roles().additional, Ids{1});
    EXPECT_EQ(tokenizer.roles().add_bos, true);
    EXPECT_EQ(tokenizer.roles().add_eos, std::nullopt);
    EXPECT_EQ(*tokenizer.Encode("b<|new|>"), (Ids{1, 7}));
    // What surrounds a text is tokenizer.json's to say; a raw prompt gets the BOS all the same.
    EXPECT_EQ(*tokenizer.Encode("b", {.add_special_tokens = true}), Ids{1});
    EXPECT_EQ(*tokenizer.EncodePrompt("b"), (Ids{0, 1}));
    EXPECT_EQ(*tokenizer.EncodePrompt("a b"), (Ids{0, 1}));
    EXPECT_TRUE(tokenizer.IsSpecial(0));
  }
}

TEST_F(FormatsTest, MalformedConfigurationIsRefusedByName) {
  Write("tokenizer.json", kWordLevel);
  for (const auto& [name, content] : std::vector<std::pair<std::string, std::string>>{
           {"tokenizer_config.json", "{"},
           {"special_tokens_map.json", "[1,"},
           {"added_tokens.json", "[]"},
           {"added_tokens.json", R"({"x": -1})"},
           {"tokenizer_config.json", R"({"added_tokens_decoder": {"x": {}}})"}}) {
    Write("tokenizer_config.json", "{}");
    Write("special_tokens_map.json", "{}");
    Write("added_tokens.json", "{}");
    Write(name, content);
    const Status status = Load().status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidModel) << content;
    EXPECT_NE(status.message().find(name), std::string::npos) << status.ToString();
  }
}

TEST_F(FormatsTest, VocabJsonAndMergesTxt) {
  Write("vocab.json", R"({"a": 0, "b": 1, "Ġ": 2, "ab": 3, "Ġab": 4, "<|endoftext|>": 5})");
  Write("merges.txt", "#version: 0.2\na b\nĠ ab\n");
  const Tokenizer tokenizer = *Load();
  EXPECT_EQ(*tokenizer.Encode("ab ab<|endoftext|>", {.add_special_tokens = true}), (Ids{3, 4, 5}));
  EXPECT_EQ(*tokenizer.Decode(Ids{3, 4}), "ab ab");
  EXPECT_EQ(tokenizer.roles().eos, 5);
  Write("tokenizer_config.json", R"({"add_prefix_space": true, "add_bos_token": true})");
  EXPECT_EQ(*Load()->Encode("ab", {.add_special_tokens = true}), (Ids{5, 4}));
  Write("merges.txt", "a b c\n");
  EXPECT_EQ(Load().status().code(), StatusCode::kInvalidModel);
}

TEST_F(FormatsTest, VocabTxt) {
  Write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\ncafe\n##s\n你\n.\n");
  const Tokenizer tokenizer = *Load();
  EXPECT_EQ(*tokenizer.Encode("Cafés.你 x", {.add_special_tokens = true}), (Ids{2, 4, 5, 7, 6, 1, 3}));
  EXPECT_EQ(*tokenizer.Decode(Ids{2, 4, 5, 7, 3}, {.skip_special_tokens = true}), "cafes.");
  EXPECT_EQ(tokenizer.roles().cls, 2);
  Write("tokenizer_config.json", R"({"do_lower_case": false})");
  EXPECT_EQ(*Load()->Encode("Cafés"), Ids{1});
}

TEST_F(FormatsTest, Tiktoken) {
  // a, b, c, ab, bc, abc
  Write("cl100k_base.tiktoken", "YQ== 0\nYg== 1\nYw== 2\nYWI= 3\nYmM= 4\nYWJj 5\n");
  const Tokenizer tokenizer = *Load();
  EXPECT_EQ(*tokenizer.Encode("abc"), Ids{5});
  EXPECT_EQ(*tokenizer.Encode("aab"), (Ids{0, 3}));
  EXPECT_EQ(*tokenizer.Encode("a<|endoftext|>"), (Ids{0, 100257}));
  EXPECT_EQ(*tokenizer.Decode(Ids{3, 2}), "abc");
  Write("cl100k_base.tiktoken", "YQ== 0\n!! 1\n");
  const Status status = Load().status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidModel);
  EXPECT_NE(status.message().find("line 2"), std::string::npos);
}

TEST_F(FormatsTest, ATiktokenFileOfAnUnknownEncodingIsRefused) {
  Write("mystery.tiktoken", "YQ== 0\n");
  EXPECT_EQ(Load().status().code(), StatusCode::kUnsupported);
}

TEST(Tokenizer, TheBundledModel) {
  const Tokenizer tokenizer = *Tokenizer::Load(testing::SourcePath("models/tales"));
  EXPECT_EQ(*tokenizer.Encode("Once upon a time"), (Ids{50, 1699, 548, 262, 569}));
  EXPECT_EQ(tokenizer.roles().eos, tokenizer.TokenToId("<|end|>"));
  EXPECT_EQ(tokenizer.id_limit(), 4096u);
  TokenStream stream(tokenizer);
  std::string text;
  const Ids ids = *tokenizer.Encode("A café, 你好 and 😀");
  for (TokenId id : ids) text += *stream.Push(id);
  EXPECT_EQ(text + *stream.Finish(), "A café, 你好 and 😀");
}

}  // namespace
}  // namespace lamina
