#include "text/format/tiktoken.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/base64.h"
#include "text/byte_level.h"
#include "text/model/bpe.h"

namespace lamina::text {
namespace {

constexpr char kGpt2Pattern[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr char kCl100kPattern[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kQwenPattern[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kO200kPattern[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct Special {
  std::string content;
  TokenId id;
};

struct Encoding {
  std::string_view name;  // how the file's name begins
  size_t ranks;
  const char* pattern;
  std::vector<Special> (*special)();
};

std::vector<Special> Gpt2Special() { return {{"<|endoftext|>", 50256}}; }
std::vector<Special> Cl100kSpecial() {
  return {{"<|endoftext|>", 100257},
          {"<|fim_prefix|>", 100258},
          {"<|fim_middle|>", 100259},
          {"<|fim_suffix|>", 100260},
          {"<|endofprompt|>", 100276}};
}
std::vector<Special> O200kSpecial() { return {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}}; }
std::vector<Special> QwenSpecial() {
  std::vector<Special> special = {
      {"<|endoftext|>", 151643}, {"<|im_start|>", 151644}, {"<|im_end|>", 151645}};
  for (TokenId i = 0; i < 205; ++i) special.push_back({fmt::format("<|extra_{}|>", i), 151646 + i});
  return special;
}
std::vector<Special> Llama3Special() {
  std::vector<std::string> names = {"<|begin_of_text|>", "<|end_of_text|>"};
  int reserved = 0;
  const auto reserve = [&](int count) {
    for (int i = 0; i < count; ++i) names.push_back(fmt::format("<|reserved_special_token_{}|>", reserved++));
  };
  reserve(4);
  names.emplace_back("<|start_header_id|>");
  names.emplace_back("<|end_header_id|>");
  reserve(1);
  names.emplace_back("<|eot_id|>");
  reserve(246);
  std::vector<Special> special;
  for (size_t i = 0; i < names.size(); ++i) special.push_back({names[i], static_cast<TokenId>(128000 + i)});
  return special;
}

const Encoding kEncodings[] = {
    {"r50k", 50256, kGpt2Pattern, Gpt2Special},        {"gpt2", 50256, kGpt2Pattern, Gpt2Special},
    {"p50k", 50280, kGpt2Pattern, Gpt2Special},        {"cl100k", 100256, kCl100kPattern, Cl100kSpecial},
    {"o200k", 199998, kO200kPattern, O200kSpecial},    {"qwen", 151643, kQwenPattern, QwenSpecial},
    {"llama3", 128000, kCl100kPattern, Llama3Special},
};

Result<const Encoding*> FindEncoding(const std::string& file_name, size_t ranks) {
  for (const Encoding& encoding : kEncodings) {
    if (file_name.starts_with(encoding.name)) return &encoding;
  }
  for (const Encoding& encoding : kEncodings) {
    if (ranks == encoding.ranks) return &encoding;
  }
  return UnsupportedError(
      "tiktoken file with {} ranks: neither its name nor its size tells which encoding it is (r50k, p50k, "
      "cl100k, "
      "o200k, qwen and llama3 are known)",
      ranks);
}

// Reads the lines as tokens spelled in byte letters.
Status ReadRanks(std::string_view content, Vocabulary& vocabulary) {
  std::string bytes;
  size_t number = 0;
  while (!content.empty()) {
    ++number;
    const size_t end = content.find('\n');
    std::string_view line = content.substr(0, end);
    content.remove_prefix(end == std::string_view::npos ? content.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const size_t space = line.find(' ');
    uint64_t rank = 0;
    const std::string_view digits = space == std::string_view::npos ? "" : line.substr(space + 1);
    const auto [last, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
    if (digits.empty() || error != std::errc() || last != digits.data() + digits.size() ||
        !DecodeBase64(line.substr(0, space), bytes) || bytes.empty()) {
      return InvalidModelError("line {}: expected a token in base64 and its rank", number);
    }
    LAMINA_RETURN_IF_ERROR(vocabulary.Add(BytesToLetters(bytes), rank));
  }
  if (vocabulary.size() == 0) return InvalidModelError("no ranks");
  return {};
}

// Any two tokens whose concatenation is a token merge, in order of its rank.
MergeTable MakeMerges(const Vocabulary& vocabulary) {
  std::vector<MergeTable::Merge> merges;
  for (size_t id = 0; id < vocabulary.id_limit(); ++id) {
    const std::string_view token = vocabulary.Text(static_cast<TokenId>(id));
    for (size_t cut = 1; cut < token.size(); ++cut) {
      const std::optional<TokenId> left = vocabulary.Find(token.substr(0, cut));
      if (!left) continue;
      const std::optional<TokenId> right = vocabulary.Find(token.substr(cut));
      if (right) merges.push_back({*left, *right, {static_cast<uint32_t>(id), static_cast<TokenId>(id)}});
    }
  }
  return MergeTable(merges);
}

}  // namespace

bool LooksLikeTiktoken(std::string_view content) {
  const std::string_view line = content.substr(0, content.find('\n'));
  const size_t space = line.find(' ');
  std::string bytes;
  return space != std::string_view::npos && space > 0 && DecodeBase64(line.substr(0, space), bytes);
}

Status ReadTiktoken(std::string_view content, const std::string& file_name, TokenizerImpl& tokenizer) {
  Vocabulary vocabulary;
  const auto lines = static_cast<size_t>(std::count(content.begin(), content.end(), '\n'));
  vocabulary.Reserve(lines, content.size());
  LAMINA_RETURN_IF_ERROR(ReadRanks(content, vocabulary));
  LAMINA_ASSIGN_OR_RETURN(const Encoding* encoding, FindEncoding(file_name, vocabulary.size()));
  const nlohmann::json pattern = {{"Regex", encoding->pattern}};
  const nlohmann::json steps = {
      {{"type", "Split"}, {"pattern", pattern}, {"behavior", "Isolated"}, {"invert", false}},
      {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}};
  LAMINA_ASSIGN_OR_RETURN(tokenizer.pre_tokenizer,
                          MakePreTokenizer({{"type", "Sequence"}, {"pretokenizers", steps}}, true));
  MergeTable merges = MakeMerges(vocabulary);
  BpeOptions options;
  options.ignore_merges = true;
  options.pieces_are_bytes = true;
  tokenizer.model = std::make_unique<BpeModel>(std::move(vocabulary), std::move(merges), std::move(options));
  tokenizer.decoder = MakeByteLevelDecoder();
  for (const Special& special : encoding->special()) {
    AddedToken token;
    token.content = special.content;
    token.normalized = false;
    token.special = true;
    LAMINA_RETURN_IF_ERROR(tokenizer.added.Add(token, tokenizer.model->vocabulary(), special.id));
  }
  return {};
}

}  // namespace lamina::text
