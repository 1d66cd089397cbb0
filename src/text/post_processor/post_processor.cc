#include "text/post_processor/post_processor.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/byte_level.h"
#include "text/json_fields.h"
#include "text/unicode.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

namespace lamina::text {
namespace {

using Made = std::unique_ptr<PostProcessor>;

void InsertSpecial(Encoding& encoding, size_t index, const std::vector<SpecialToken>& tokens, bool detailed) {
  const auto at = static_cast<long>(index);
  std::vector<TokenId> ids;
  std::vector<std::string> pieces;
  for (const auto& [id, piece] : tokens) {
    ids.push_back(id);
    pieces.push_back(piece);
  }
  encoding.ids.insert(encoding.ids.begin() + at, ids.begin(), ids.end());
  if (!detailed) return;
  encoding.pieces.insert(encoding.pieces.begin() + at, pieces.begin(), pieces.end());
  encoding.spans.insert(encoding.spans.begin() + at, tokens.size(), Encoding::Span{});
  encoding.special.insert(encoding.special.begin() + at, tokens.size(), true);
}

class AffixProcessor : public PostProcessor {
 public:
  AffixProcessor(std::vector<SpecialToken> before, std::vector<SpecialToken> after)
      : before_(std::move(before)), after_(std::move(after)) {}
  void Process(Encoding& encoding, std::string_view, const ProcessOptions& options) const override {
    if (!options.add_special_tokens) return;
    InsertSpecial(encoding, encoding.ids.size(), after_, options.detailed);
    InsertSpecial(encoding, 0, before_, options.detailed);
  }
  size_t AddedTokens() const override { return before_.size() + after_.size(); }

 private:
  std::vector<SpecialToken> before_;
  std::vector<SpecialToken> after_;
};

// A template without $A gives its special tokens alone.
class ConstantProcessor : public PostProcessor {
 public:
  explicit ConstantProcessor(std::vector<SpecialToken> tokens) : tokens_(std::move(tokens)) {}
  void Process(Encoding& encoding, std::string_view, const ProcessOptions& options) const override {
    encoding = {};
    if (options.add_special_tokens) InsertSpecial(encoding, 0, tokens_, options.detailed);
  }
  size_t AddedTokens() const override { return tokens_.size(); }

 private:
  std::vector<SpecialToken> tokens_;
};

// Takes white space out of the spans of tokens that begin or end with it.
class TrimSpans : public PostProcessor {
 public:
  explicit TrimSpans(bool add_prefix_space) : add_prefix_space_(add_prefix_space) {}
  void Process(Encoding& encoding, std::string_view text, const ProcessOptions&) const override {
    for (size_t i = 0; i < encoding.spans.size(); ++i)
      Trim(encoding.pieces[i], text, i == 0, encoding.spans[i]);
  }
  size_t AddedTokens() const override { return 0; }

 private:
  static bool IsSpace(char32_t c) { return c == ByteLetter(' ') || IsWhitespace(c); }

  void Trim(std::string_view piece, std::string_view text, bool first_token, Encoding::Span& span) const {
    size_t leading = 0;
    size_t trailing = 0;  // of the piece
    size_t chars = 0;
    for (std::string_view rest = piece; !rest.empty();) {
      const Utf8Char c = DecodeUtf8(rest);
      rest.remove_prefix(c.length_bytes);
      const bool space = IsSpace(c.code);
      if (space && leading == chars) ++leading;
      trailing = space ? trailing + 1 : 0;
      ++chars;
    }
    // One space at the very front may be the one that was put there.
    const bool first = first_token || span.begin == 0;
    if (leading == 1 && first && add_prefix_space_) leading = 0;
    for (; leading > 0 && span.begin < span.end; --leading) span.begin += Utf8Length(text[span.begin]);
    for (; trailing > 0 && span.end > span.begin; --trailing) {
      do --span.end;
      while (span.end > span.begin && IsUtf8Continuation(text[span.end]));
    }
  }

  bool add_prefix_space_;
};

class SequenceProcessor : public PostProcessor {
 public:
  explicit SequenceProcessor(std::vector<Made> parts) : parts_(std::move(parts)) {}
  void Process(Encoding& encoding, std::string_view text, const ProcessOptions& options) const override {
    for (const Made& part : parts_) part->Process(encoding, text, options);
  }
  size_t AddedTokens() const override {
    size_t count = 0;
    for (const Made& part : parts_) count += part->AddedTokens();
    return count;
  }

 private:
  std::vector<Made> parts_;
};

Made MakeInSequence(Made first, Made second) {
  std::vector<Made> parts;
  parts.push_back(std::move(first));
  parts.push_back(std::move(second));
  return std::make_unique<SequenceProcessor>(std::move(parts));
}

Result<Made> MakeSequence(const JsonFields& fields) {
  LAMINA_ASSIGN_OR_RETURN(const nlohmann::json* parts_json, fields.Array("processors"));
  std::vector<Made> parts;
  for (const nlohmann::json& part_json : *parts_json) {
    LAMINA_ASSIGN_OR_RETURN(Made part, MakePostProcessor(part_json));
    parts.push_back(std::move(part));
  }
  return Made(std::make_unique<SequenceProcessor>(std::move(parts)));
}

Result<TokenId> ParseId(const nlohmann::json& json, const JsonFields& fields, const char* key) {
  if (!json.is_number_unsigned() || json.get<uint64_t>() > Vocabulary::kMaxId)
    return fields.Wrong(key, "token ids");
  return json.get<TokenId>();
}

// ["[SEP]", 102]
Result<SpecialToken> ParseSpecialToken(const JsonFields& fields, const char* key) {
  const nlohmann::json* json = fields.Find(key);
  if (json == nullptr) return fields.Missing(key);
  if (!json->is_array() || json->size() != 2 || !(*json)[0].is_string())
    return fields.Wrong(key, "[token, id]");
  LAMINA_ASSIGN_OR_RETURN(const TokenId id, ParseId((*json)[1], fields, key));
  return SpecialToken(id, (*json)[0].get<std::string>());
}

// Appends the tokens that a template's special token stands for.
Status AppendTemplateToken(const JsonFields& fields, const nlohmann::json& piece,
                           std::vector<SpecialToken>& tokens) {
  const nlohmann::json* defined = fields.Find("special_tokens");
  const auto name = piece.is_object() ? piece.find("id") : piece.end();
  if (!piece.is_object() || name == piece.end() || !name->is_string())
    return fields.Wrong("single", "special tokens with an 'id'");
  if (defined == nullptr || !defined->is_object() || !defined->contains(name->get<std::string>())) {
    return InvalidModelError("{}: special token '{}' is not in special_tokens", fields.what(),
                             name->get<std::string>());
  }
  const nlohmann::json& token = (*defined)[name->get<std::string>()];
  const JsonFields token_fields(token, fields.what() + ": special token '" + name->get<std::string>() + "'");
  LAMINA_ASSIGN_OR_RETURN(const nlohmann::json* ids, token_fields.Array("ids"));
  LAMINA_ASSIGN_OR_RETURN(const nlohmann::json* spellings, token_fields.Array("tokens"));
  if (ids->size() != spellings->size()) return token_fields.Wrong("tokens", "as many as 'ids'");
  for (size_t i = 0; i < ids->size(); ++i) {
    LAMINA_ASSIGN_OR_RETURN(const TokenId id, ParseId((*ids)[i], token_fields, "ids"));
    if (!(*spellings)[i].is_string()) return token_fields.Wrong("tokens", "strings");
    tokens.emplace_back(id, (*spellings)[i].get<std::string>());
  }
  return {};
}

Result<Made> MakeTemplate(const JsonFields& fields) {
  LAMINA_ASSIGN_OR_RETURN(const nlohmann::json* pieces, fields.Array("single"));
  std::vector<SpecialToken> before;
  std::vector<SpecialToken> after;
  bool has_text = false;
  for (const nlohmann::json& piece : *pieces) {
    if (piece.is_object() && piece.contains("SpecialToken")) {
      LAMINA_RETURN_IF_ERROR(AppendTemplateToken(fields, piece["SpecialToken"], has_text ? after : before));
    } else if (piece.is_object() && piece.contains("Sequence")) {
      if (has_text) return fields.Wrong("single", "one Sequence");
      has_text = true;
    } else {
      return fields.Wrong("single", "pieces that are SpecialToken or Sequence");
    }
  }
  if (!has_text) return Made(std::make_unique<ConstantProcessor>(std::move(before)));
  return MakeAffixProcessor(std::move(before), std::move(after));
}

}  // namespace

std::unique_ptr<PostProcessor> MakeAffixProcessor(std::vector<SpecialToken> before,
                                                  std::vector<SpecialToken> after) {
  return std::make_unique<AffixProcessor>(std::move(before), std::move(after));
}

Result<std::unique_ptr<PostProcessor>> MakePostProcessor(const nlohmann::json& json) {
  LAMINA_ASSIGN_OR_RETURN(const std::string type, ComponentType(json, "post_processor"));
  const JsonFields fields(json, "post_processor '" + type + "'");
  if (type == "Sequence") return MakeSequence(fields);
  if (type == "TemplateProcessing") return MakeTemplate(fields);
  if (type == "ByteLevel") {
    LAMINA_ASSIGN_OR_RETURN(const bool add_prefix_space, fields.Bool("add_prefix_space", true));
    LAMINA_ASSIGN_OR_RETURN(const bool trim, fields.Bool("trim_offsets", true));
    if (!trim) return MakeAffixProcessor({}, {});
    return Made(std::make_unique<TrimSpans>(add_prefix_space));
  }
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    LAMINA_ASSIGN_OR_RETURN(SpecialToken cls, ParseSpecialToken(fields, "cls"));
    LAMINA_ASSIGN_OR_RETURN(SpecialToken sep, ParseSpecialToken(fields, "sep"));
    Made affixes = MakeAffixProcessor({std::move(cls)}, {std::move(sep)});
    if (type == "BertProcessing") return affixes;
    LAMINA_ASSIGN_OR_RETURN(const bool trim, fields.Bool("trim_offsets", true));
    LAMINA_ASSIGN_OR_RETURN(const bool add_prefix_space, fields.Bool("add_prefix_space", true));
    if (!trim) return affixes;
    return MakeInSequence(std::make_unique<TrimSpans>(add_prefix_space), std::move(affixes));
  }
  return UnsupportedError("post_processor '{}' is not known", type);
}

}  // namespace lamina::text
