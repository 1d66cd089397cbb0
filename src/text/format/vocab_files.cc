#include "text/format/vocab_files.h"

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/json_reader.h"
#include "text/model/bpe.h"
#include "text/model/make_merge_table.h"
#include "text/model/word_piece.h"
#include "text/utf8.h"

namespace lamina::text {
namespace {

// Calls visit(line) for each line, without its end; stops at an error.
template <typename Visit>
Status ForEachLine(std::string_view content, Visit visit) {
  while (!content.empty()) {
    const size_t end = content.find('\n');
    std::string_view line = content.substr(0, end);
    content.remove_prefix(end == std::string_view::npos ? content.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    LAMINA_RETURN_IF_ERROR(visit(line));
  }
  return {};
}

Status CheckUtf8(std::string_view content, const char* name) {
  const size_t valid = ValidUtf8Prefix(content);
  if (valid == content.size()) return {};
  return InvalidModelError("{} at byte {}: not valid UTF-8", name, valid);
}

// Makes tokens that the vocabulary has special, so that they are found in texts and skipped in decoding.
Status AddSpecial(std::initializer_list<const char*> contents, TokenizerImpl& tokenizer) {
  for (const char* content : contents) {
    if (!tokenizer.model->vocabulary().Find(content)) continue;
    AddedToken token;
    token.content = content;
    token.normalized = false;
    token.special = true;
    LAMINA_RETURN_IF_ERROR(tokenizer.added.Add(token, tokenizer.model->vocabulary()));
  }
  return {};
}

}  // namespace

Status ReadVocabAndMerges(std::string_view vocab_json, std::string_view merges_txt,
                          const TokenizerConfig& config, TokenizerImpl& tokenizer) {
  LAMINA_RETURN_IF_ERROR(CheckUtf8(vocab_json, "vocab.json"));
  LAMINA_RETURN_IF_ERROR(CheckUtf8(merges_txt, "merges.txt"));
  Vocabulary vocabulary;
  JsonReader reader(vocab_json);
  LAMINA_RETURN_IF_ERROR(reader.EnterObject());
  while (true) {
    std::string_view token;
    LAMINA_ASSIGN_OR_RETURN(const bool more, reader.NextKey(token));
    if (!more) break;
    uint64_t id = 0;
    LAMINA_RETURN_IF_ERROR(reader.ReadUnsigned(id));
    LAMINA_RETURN_IF_ERROR(vocabulary.Add(token, id));
  }
  std::vector<MergeSpelling> merges;
  LAMINA_RETURN_IF_ERROR(ForEachLine(merges_txt, [&](std::string_view line) -> Status {
    if (line.empty() || line.starts_with("#version")) return {};
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
      return InvalidModelError("merges.txt: '{}': expected two tokens with a space between", line);
    }
    merges.push_back({line.substr(0, space), line.substr(space + 1)});
    return {};
  }));
  BpeOptions options;
  options.pieces_are_bytes = true;
  LAMINA_ASSIGN_OR_RETURN(MergeTable table, MakeMergeTable(vocabulary, merges));
  tokenizer.model = std::make_unique<BpeModel>(std::move(vocabulary), std::move(table), std::move(options));
  const nlohmann::json byte_level = {{"type", "ByteLevel"},
                                     {"add_prefix_space", config.add_prefix_space.value_or(false)},
                                     {"use_regex", true}};
  LAMINA_ASSIGN_OR_RETURN(tokenizer.pre_tokenizer, MakePreTokenizer(byte_level, true));
  tokenizer.decoder = MakeByteLevelDecoder();
  LAMINA_RETURN_IF_ERROR(AddSpecial({"<|endoftext|>", "<s>", "</s>", "<pad>", "<unk>", "<mask>"}, tokenizer));
  return {};
}

Status ReadVocabTxt(std::string_view content, const TokenizerConfig& config, TokenizerImpl& tokenizer) {
  LAMINA_RETURN_IF_ERROR(CheckUtf8(content, "vocab.txt"));
  Vocabulary vocabulary;
  uint64_t id = 0;
  LAMINA_RETURN_IF_ERROR(
      ForEachLine(content, [&](std::string_view line) { return vocabulary.Add(line, id++); }));
  if (vocabulary.size() == 0) return InvalidModelError("vocab.txt: no tokens");
  WordPieceOptions options;
  options.unk_token = config.unk.value_or(options.unk_token);
  tokenizer.model = std::make_unique<WordPieceModel>(std::move(vocabulary), std::move(options));
  BertNormalizerOptions normalizer;
  normalizer.lowercase = config.do_lower_case.value_or(true);
  normalizer.strip_accents = config.strip_accents.value_or(normalizer.lowercase);
  normalizer.handle_chinese_chars = config.tokenize_chinese_chars.value_or(true);
  tokenizer.normalizer = MakeBertNormalizer(normalizer);
  LAMINA_ASSIGN_OR_RETURN(tokenizer.pre_tokenizer, MakePreTokenizer({{"type", "BertPreTokenizer"}}, false));
  tokenizer.decoder = MakeWordPieceDecoder("##", true);
  return AddSpecial({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}, tokenizer);
}

}  // namespace lamina::text
