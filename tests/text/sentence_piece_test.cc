// SentencePiece's .model files: small ones made here, and real ones against its own program.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <protozero/pbf_writer.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "support/test_data.h"
#include "text/reference_comparison.h"
#include "text/tokenizer.h"

namespace lamina {
namespace {

constexpr int kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6;
constexpr int kUnigram = 1, kBpe = 2;

struct Piece {
  std::string spelling;
  float score = 0;
  int type = kNormal;
};

struct ModelFile {
  std::vector<Piece> pieces = {{"<unk>", 0, kUnknown}, {"<s>", 0, kControl}, {"</s>", 0, kControl}};
  int model_type = kBpe;
  bool byte_fallback = false;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;

  void AddBytes() {
    byte_fallback = true;
    for (int byte = 0; byte < 256; ++byte) {
      char spelling[8];
      std::snprintf(spelling, sizeof spelling, "<0x%02X>", byte);
      pieces.push_back({spelling, 0, kByte});
    }
  }
  std::string Bytes() const {
    std::string bytes;
    protozero::pbf_writer writer(bytes);
    for (const Piece& piece : pieces) {
      protozero::pbf_writer message(writer, 1);
      message.add_string(1, piece.spelling);
      message.add_float(2, piece.score);
      message.add_enum(3, piece.type);
    }
    {
      protozero::pbf_writer trainer(writer, 2);
      trainer.add_enum(3, model_type);
      trainer.add_bool(35, byte_fallback);
    }
    protozero::pbf_writer normalizer(writer, 3);
    normalizer.add_bool(3, add_dummy_prefix);
    normalizer.add_bool(4, remove_extra_whitespaces);
    return bytes;
  }
};

class SentencePieceTest : public ::testing::Test {
 protected:
  Result<Tokenizer> Load(const ModelFile& file) {
    testing::WriteWholeFile(folder_.File("tokenizer.model"), file.Bytes());
    return Tokenizer::Load(folder_.path());
  }
  testing::TempDir folder_;
};

using Ids = std::vector<TokenId>;
using Strings = std::vector<std::string>;

TEST_F(SentencePieceTest, BpeMergesTheBestScoreFirst) {
  ModelFile file;
  for (const Piece& piece : std::vector<Piece>{
           {"▁", -9}, {"a", -9}, {"b", -9}, {"c", -9}, {"ab", -2}, {"bc", -1}, {"▁a", -3}, {"abc", -4}}) {
    file.pieces.push_back(piece);
  }
  const Tokenizer tokenizer = *Load(file);
  const Encoding encoding = *tokenizer.EncodeWithDetails("abc  ab ");
  EXPECT_EQ(encoding.pieces, (Strings{"▁a", "bc", "▁", "ab"}));
  EXPECT_EQ(encoding.spans, (std::vector<Encoding::Span>{{0, 1}, {1, 3}, {3, 4}, {5, 7}}));
  EXPECT_EQ(*tokenizer.Decode(encoding.ids), "abc ab");
  EXPECT_EQ(tokenizer.roles().bos, 1);
  EXPECT_EQ(tokenizer.roles().eos, 2);
  EXPECT_EQ(tokenizer.Encode("a", {.add_special_tokens = true})->front(), 1);
}

TEST_F(SentencePieceTest, UnusedPiecesAreTakenApartAndUserDefinedOnesKept) {
  ModelFile file;
  for (const Piece& piece : std::vector<Piece>{
           {"▁", -9}, {"a", -9}, {"b", -9}, {"ab", -1, kUnused}, {"aba", -2}, {"<x>", 0, kUserDefined}}) {
    file.pieces.push_back(piece);
  }
  const Tokenizer tokenizer = *Load(file);
  EXPECT_EQ(tokenizer.EncodeWithDetails("ab<x>aba")->pieces, (Strings{"▁", "a", "b", "<x>", "aba"}));
  EXPECT_EQ(tokenizer.EncodeWithDetails("<s>")->pieces,
            (Strings{"▁", "<s>"}));  // as text: unknown characters
  EXPECT_EQ(*tokenizer.Encode("<s>"), (Ids{3, 0}));
}

TEST_F(SentencePieceTest, UnknownCharactersAreFusedOrSpelledInBytes) {
  ModelFile file;
  file.pieces.push_back({"▁", -9});
  EXPECT_EQ(*Load(file)->Encode("你好"), (Ids{3, 0}));
  EXPECT_EQ(*Load(file)->Decode(Ids{3, 0}), " \u2047 ");
  file.AddBytes();
  const Tokenizer tokenizer = *Load(file);
  const Ids ids = *tokenizer.Encode("é");
  EXPECT_EQ(ids, (Ids{3, 4 + 0xC3, 4 + 0xA9}));
  EXPECT_EQ(*tokenizer.Decode(ids), "é");
  // A character appears when its last byte comes; a stray byte becomes U+FFFD.
  TokenStream stream(tokenizer);
  EXPECT_EQ(*stream.Push(4 + 0xC3), "");
  EXPECT_EQ(*stream.Push(4 + 0xA9), "é");
  EXPECT_EQ(*stream.Push(4 + 0xE4), "");
  EXPECT_EQ(*stream.Push(3), "\uFFFD ");
  EXPECT_EQ(*stream.Finish(), "");
}

TEST_F(SentencePieceTest, UnigramFindsTheBestSum) {
  ModelFile file;
  file.model_type = kUnigram;
  for (const Piece& piece : std::vector<Piece>{{"▁", -2},
                                               {"a", -2},
                                               {"b", -2},
                                               {"ab", -3.5},
                                               {"▁a", -5},
                                               {"bb", -1, kUnused},
                                               {"xy", 0, kUserDefined}}) {
    file.pieces.push_back(piece);
  }
  const Tokenizer tokenizer = *Load(file);
  EXPECT_EQ(tokenizer.EncodeWithDetails("abb xyq")->pieces, (Strings{"▁", "ab", "b", "▁", "xy", "q"}));
}

TEST_F(SentencePieceTest, WhiteSpaceIsKeptWhereTheModelSaysSo) {
  ModelFile file;
  file.remove_extra_whitespaces = false;
  file.add_dummy_prefix = false;
  file.pieces.push_back({"▁", -1});
  file.pieces.push_back({"a", -1});
  const Tokenizer tokenizer = *Load(file);
  const Ids ids = *tokenizer.Encode("  a ");
  EXPECT_EQ(ids, (Ids{3, 3, 4, 3}));
  EXPECT_EQ(*tokenizer.Decode(ids), "  a ");
}

TEST_F(SentencePieceTest, ConfigurationAddsTokensAndDecidesAboutBos) {
  ModelFile file;
  file.pieces.push_back({"▁", -1});
  file.pieces.push_back({"a", -1});
  testing::WriteWholeFile(folder_.File("tokenizer_config.json"),
                          R"({"add_bos_token": false, "add_eos_token": true, "eos_token": {"content": "</s>"},
                              "added_tokens_decoder": {"7": {"content": "<|end|>", "special": true}}})");
  const Tokenizer tokenizer = *Load(file);
  EXPECT_EQ(*tokenizer.Encode("a<|end|>", {.add_special_tokens = true}), (Ids{3, 4, 7, 2}));
  EXPECT_EQ(*tokenizer.Encode("</s>"), Ids{2});
  EXPECT_TRUE(tokenizer.IsSpecial(7));
  EXPECT_EQ(*tokenizer.Decode(Ids{3, 4, 7}, {.skip_special_tokens = true}), "a");
}

TEST_F(SentencePieceTest, MalformedFilesAreRefused) {
  ModelFile file;
  file.pieces.push_back({"a", 0});
  file.pieces.push_back({"a", 0});
  EXPECT_EQ(Load(file).status().code(), StatusCode::kInvalidModel);  // twice
  file = {};
  file.pieces.erase(file.pieces.begin());
  EXPECT_EQ(Load(file).status().code(), StatusCode::kInvalidModel);  // no unknown piece
  file = {};
  file.byte_fallback = true;
  EXPECT_EQ(Load(file).status().code(), StatusCode::kInvalidModel);  // no byte pieces
  file = {};
  file.model_type = 4;
  EXPECT_EQ(Load(file).status().code(), StatusCode::kUnsupported);
  file = {};
  file.pieces.push_back({"\xFF", 0});
  EXPECT_EQ(Load(file).status().code(), StatusCode::kInvalidModel);
}

TEST_F(SentencePieceTest, DamagedFilesAreRefusedOrWork) {
  ModelFile file;
  file.AddBytes();
  file.pieces.push_back({"▁a", -1});
  const std::string whole = file.Bytes();
  std::mt19937 random(3);
  for (int round = 0; round < 400; ++round) {
    std::string bytes = whole;
    bytes[random() % bytes.size()] = static_cast<char>(random());
    if (round % 3 == 0) bytes.resize(random() % bytes.size());
    testing::WriteWholeFile(folder_.File("tokenizer.model"), bytes);
    const auto tokenizer = Tokenizer::Load(folder_.File("tokenizer.model"));
    if (tokenizer.ok()) (void)tokenizer->EncodeWithDetails("a  b\xFF é");
  }
}

// What a program prints, line by line.
Strings OutputLines(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  Strings lines(1);
  for (int c = std::fgetc(pipe.get()); c != EOF; c = std::fgetc(pipe.get())) {
    if (c == '\n') {
      lines.emplace_back();
    } else {
      lines.back().push_back(static_cast<char>(c));
    }
  }
  lines.pop_back();
  return lines;
}

std::string RandomLine(std::mt19937& random) {
  static const Strings words = {"the",    "Hello",  "world",   "こんにちは", "世界",   "日本語", "ﾊﾝｶｸ",
                                "ＡＢＣ", "é",      "e\u0301", "ﬁ",          "①",      "㍿",     "😀",
                                "\u3000", "  ",     "\t",      "\u00a0",     "▁",      "<s>",    "</s>",
                                "<unk>",  "<0x0A>", "don't",   "12345",      "\u200b", "aaaa"};
  std::string line;
  for (uint32_t n = 1 + random() % 12; n > 0; --n) {
    line += words[random() % words.size()];
    if (random() % 2 == 0) line += ' ';
    if (random() % 10 == 0) line += static_cast<char>(0x21 + random() % 0x5E);
    if (random() % 40 == 0) line += static_cast<char>(0x80 + random() % 0x80);  // invalid UTF-8
  }
  return line;
}

void CompareWithProgram(const std::string& name, int count) {
  LAMINA_SHARED_PATH_OR_SKIP(path, name);
  if (std::system("spm_encode --help > /dev/null 2>&1") == 127 * 256)
    GTEST_SKIP() << "spm_encode is not installed";
  const Tokenizer tokenizer = *Tokenizer::Load(path);
  testing::TempDir folder;
  std::mt19937 random(5);
  Strings texts;
  std::ofstream file(folder.File("texts"));
  for (int i = 0; i < count; ++i) {
    texts.push_back(RandomLine(random));
    file << texts.back() << "\n";
  }
  file.close();
  const std::string options = " --model='" + path + "' '" + folder.File("texts") + "' 2> /dev/null";
  const Strings ids = OutputLines("spm_encode --output_format=id" + options);
  const Strings pieces = OutputLines("spm_encode --output_format=piece" + options);
  ASSERT_EQ(ids.size(), texts.size());
  std::ofstream id_file(folder.File("ids"));
  for (const std::string& line : ids) id_file << line << "\n";
  id_file.close();
  const Strings decoded = OutputLines("spm_decode --input_format=id --model='" + path + "' '" +
                                      folder.File("ids") + "' 2> /dev/null");
  ASSERT_EQ(decoded.size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    const Encoding encoding = *tokenizer.EncodeWithDetails(texts[i]);
    std::ostringstream found_ids;
    std::string found_pieces;
    for (size_t k = 0; k < encoding.ids.size(); ++k) {
      found_ids << (k > 0 ? " " : "") << encoding.ids[k];
      found_pieces += (k > 0 ? " " : "") + encoding.pieces[k];
    }
    ASSERT_EQ(found_ids.str(), ids[i]) << i << ": " << texts[i];
    ASSERT_EQ(found_pieces, pieces[i]) << i << ": " << texts[i];
    ASSERT_EQ(*tokenizer.Decode(encoding.ids), decoded[i]) << i << ": " << texts[i];
    ASSERT_EQ(testing::StreamAll(tokenizer, encoding.ids, false), decoded[i]) << i << ": " << texts[i];
  }
}

TEST(SentencePiece, EqualsItsOwnProgramBpe) { CompareWithProgram("tokenizers/spm/tok512.model", 500); }
TEST(SentencePiece, EqualsItsOwnProgramUnigram) {
  CompareWithProgram("tokenizers/spm/test_model.model", 500);
}
TEST(SentencePiece, EqualsItsOwnProgramJapanese) {
  CompareWithProgram("tokenizers/spm/test_ja_model.model", 500);
}
TEST(SentencePieceFull, EqualsItsOwnProgramBpe) {
  CompareWithProgram("tokenizers/spm/tok512.model", 100'000);
}
TEST(SentencePieceFull, EqualsItsOwnProgramUnigram) {
  CompareWithProgram("tokenizers/spm/test_model.model", 100'000);
}
TEST(SentencePieceFull, EqualsItsOwnProgramJapanese) {
  CompareWithProgram("tokenizers/spm/test_ja_model.model", 100'000);
}

}  // namespace
}  // namespace lamina
