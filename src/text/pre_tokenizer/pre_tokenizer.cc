#include "text/pre_tokenizer/pre_tokenizer.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/json_fields.h"
#include "text/pre_tokenizer/byte_level_split.h"
#include "text/pre_tokenizer/metaspace.h"
#include "text/pre_tokenizer/pattern_split.h"
#include "text/pre_tokenizer/split.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace lamina::text {
namespace {

class SequencePreTokenizer : public PreTokenizer {
 public:
  explicit SequencePreTokenizer(std::vector<std::unique_ptr<PreTokenizer>> parts)
      : parts_(std::move(parts)) {}
  Status Split(PreTokenizedText& text) const override {
    for (const auto& part : parts_) LAMINA_RETURN_IF_ERROR(part->Split(text));
    return {};
  }
  bool NeedsSources() const override {
    for (const auto& part : parts_) {
      if (part->NeedsSources()) return true;
    }
    return false;
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> parts_;
};

// Cuts at single characters of one kind.
class CharSplit : public PreTokenizer {
 public:
  using IsDelimiter = bool (*)(char32_t);
  CharSplit(IsDelimiter is_delimiter, DelimiterBehavior behavior)
      : is_delimiter_(is_delimiter), behavior_(behavior) {}
  Status Split(PreTokenizedText& text) const override {
    SplitAtChars(text, behavior_, is_delimiter_);
    return {};
  }

 private:
  IsDelimiter is_delimiter_;
  DelimiterBehavior behavior_;
};

class CharDelimiterSplit : public PreTokenizer {
 public:
  explicit CharDelimiterSplit(char32_t delimiter) : delimiter_(delimiter) {}
  Status Split(PreTokenizedText& text) const override {
    SplitAtChars(text, DelimiterBehavior::kRemoved, [this](char32_t c) { return c == delimiter_; });
    return {};
  }

 private:
  char32_t delimiter_;
};

class BertPreTokenizer : public PreTokenizer {
 public:
  Status Split(PreTokenizedText& text) const override {
    SplitAtChars(text, DelimiterBehavior::kRemoved, IsWhitespace);
    SplitAtChars(text, DelimiterBehavior::kIsolated, IsPunctuation);
    return {};
  }
};

// Pieces of characters that `class_of` puts in one class, a change of class being a cut; class 0 is dropped.
template <typename ClassOf>
void SplitAtClassChanges(PreTokenizedText& text, ClassOf class_of) {
  std::vector<PieceRange> pieces;
  const std::string_view all = text.text.text();
  for (const PieceRange& piece : text.pieces) {
    uint32_t begin = piece.begin;
    int current = 0;
    for (uint32_t pos = piece.begin; pos < piece.end;) {
      const Utf8Char c = DecodeUtf8(all.substr(pos));
      const int next = class_of(c.code);
      if (next != current) {
        if (current != 0) pieces.push_back({begin, pos});
        begin = pos;
        current = next;
      }
      pos += c.length_bytes;
    }
    if (current != 0) pieces.push_back({begin, piece.end});
  }
  text.pieces = std::move(pieces);
}

// Runs of word characters, and runs of what is neither word character nor white space.
class Whitespace : public PreTokenizer {
 public:
  Status Split(PreTokenizedText& text) const override {
    SplitAtClassChanges(text, [](char32_t c) { return IsWordChar(c) ? 1 : IsWhitespace(c) ? 0 : 2; });
    return {};
  }
};

// Cuts where the script changes; spaces go with what stands before them, and those at the start of a piece
// are dropped, as in the reference.
class UnicodeScripts : public PreTokenizer {
 public:
  Status Split(PreTokenizedText& text) const override {
    std::vector<PieceRange> pieces;
    const std::string_view all = text.text.text();
    for (const PieceRange& piece : text.pieces) {
      int script = kAnyScript;
      uint32_t begin = piece.end;  // none yet
      for (uint32_t pos = piece.begin; pos < piece.end;) {
        const Utf8Char c = DecodeUtf8(all.substr(pos));
        const int next = ScriptOf(c.code);
        if (next != kAnyScript && next != script) {
          if (begin < pos) pieces.push_back({begin, pos});
          begin = pos;
          script = next;
        }
        pos += c.length_bytes;
      }
      if (begin < piece.end) pieces.push_back({begin, piece.end});
    }
    text.pieces = std::move(pieces);
    return {};
  }
};

class FixedLength : public PreTokenizer {
 public:
  explicit FixedLength(uint64_t length_chars) : length_chars_(length_chars) {}
  Status Split(PreTokenizedText& text) const override {
    std::vector<PieceRange> pieces;
    const std::string_view all = text.text.text();
    for (const PieceRange& piece : text.pieces) {
      uint32_t begin = piece.begin;
      uint64_t chars = 0;
      for (uint32_t pos = piece.begin; pos < piece.end; pos += Utf8Length(all[pos])) {
        if (chars == length_chars_) {
          pieces.push_back({begin, pos});
          begin = pos;
          chars = 0;
        }
        ++chars;
      }
      pieces.push_back({begin, piece.end});
    }
    text.pieces = std::move(pieces);
    return {};
  }

 private:
  uint64_t length_chars_;
};

using Made = std::unique_ptr<PreTokenizer>;

Result<Made> MakeSequence(const JsonFields& fields, bool leave_bytes) {
  LAMINA_ASSIGN_OR_RETURN(const nlohmann::json* parts_json, fields.Array("pretokenizers"));
  std::vector<Made> parts;
  for (const nlohmann::json& part_json : *parts_json) {
    const bool last = &part_json == &parts_json->back();
    LAMINA_ASSIGN_OR_RETURN(Made part, MakePreTokenizer(part_json, leave_bytes && last));
    parts.push_back(std::move(part));
  }
  return Made(std::make_unique<SequencePreTokenizer>(std::move(parts)));
}

Result<Made> MakeByteLevel(const JsonFields& fields, bool leave_bytes) {
  LAMINA_ASSIGN_OR_RETURN(const bool add_prefix_space, fields.Bool("add_prefix_space"));
  LAMINA_ASSIGN_OR_RETURN(const bool use_regex, fields.Bool("use_regex", true));
  return ByteLevelSplit::Create(add_prefix_space, use_regex, !leave_bytes);
}

Result<Made> MakeMetaspace(const JsonFields& fields) {
  LAMINA_ASSIGN_OR_RETURN(const char32_t replacement, fields.Char("replacement"));
  LAMINA_ASSIGN_OR_RETURN(const PrependScheme scheme, ParsePrependScheme(fields));
  LAMINA_ASSIGN_OR_RETURN(const bool split, fields.Bool("split", true));
  return Made(std::make_unique<Metaspace>(replacement, scheme, split));
}

Result<Made> MakeSplit(const JsonFields& fields) {
  const nlohmann::json* pattern_json = fields.Find("pattern");
  if (pattern_json == nullptr) return fields.Missing("pattern");
  LAMINA_ASSIGN_OR_RETURN(Pattern pattern, Pattern::FromJson(*pattern_json, fields.what()));
  LAMINA_ASSIGN_OR_RETURN(const std::string behavior_name, fields.String("behavior"));
  LAMINA_ASSIGN_OR_RETURN(const DelimiterBehavior behavior,
                          ParseDelimiterBehavior(behavior_name, fields.what()));
  LAMINA_ASSIGN_OR_RETURN(const bool inverted, fields.Bool("invert", false));
  return Made(std::make_unique<PatternSplit>(std::move(pattern), behavior, inverted));
}

}  // namespace

Result<std::unique_ptr<PreTokenizer>> MakePreTokenizer(const nlohmann::json& json, bool leave_bytes) {
  LAMINA_ASSIGN_OR_RETURN(const std::string type, ComponentType(json, "pre_tokenizer"));
  const JsonFields fields(json, "pre_tokenizer '" + type + "'");
  if (type == "Sequence") return MakeSequence(fields, leave_bytes);
  if (type == "ByteLevel") return MakeByteLevel(fields, leave_bytes);
  if (type == "Metaspace") return MakeMetaspace(fields);
  if (type == "Split") return MakeSplit(fields);
  if (type == "BertPreTokenizer") return Made(std::make_unique<BertPreTokenizer>());
  if (type == "Whitespace") return Made(std::make_unique<Whitespace>());
  if (type == "WhitespaceSplit")
    return Made(std::make_unique<CharSplit>(IsWhitespace, DelimiterBehavior::kRemoved));
  if (type == "UnicodeScripts") return Made(std::make_unique<UnicodeScripts>());
  if (type == "Digits") {
    LAMINA_ASSIGN_OR_RETURN(const bool individual, fields.Bool("individual_digits"));
    const auto behavior = individual ? DelimiterBehavior::kIsolated : DelimiterBehavior::kContiguous;
    return Made(std::make_unique<CharSplit>(IsNumeric, behavior));
  }
  if (type == "Punctuation") {
    LAMINA_ASSIGN_OR_RETURN(const std::string name, fields.String("behavior", "Isolated"));
    LAMINA_ASSIGN_OR_RETURN(const DelimiterBehavior behavior, ParseDelimiterBehavior(name, fields.what()));
    return Made(std::make_unique<CharSplit>(IsPunctuation, behavior));
  }
  if (type == "CharDelimiterSplit") {
    LAMINA_ASSIGN_OR_RETURN(const char32_t delimiter, fields.Char("delimiter"));
    return Made(std::make_unique<CharDelimiterSplit>(delimiter));
  }
  if (type == "FixedLength") {
    LAMINA_ASSIGN_OR_RETURN(const uint64_t length_chars, fields.Unsigned("length", 5));
    if (length_chars == 0) return fields.Wrong("length", "at least 1");
    return Made(std::make_unique<FixedLength>(length_chars));
  }
  return UnsupportedError("pre_tokenizer '{}' is not known", type);
}

bool EndsInByteLevel(const nlohmann::json& json) {
  if (!json.is_object() || !json.contains("type")) return false;
  if (json["type"] == "ByteLevel") return true;
  return json["type"] == "Sequence" && json.contains("pretokenizers") && json["pretokenizers"].is_array() &&
         !json["pretokenizers"].empty() && EndsInByteLevel(json["pretokenizers"].back());
}

}  // namespace lamina::text
