#include "text/normalizer/normalizer.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/base64.h"
#include "text/byte_level.h"
#include "text/json_fields.h"
#include "text/pattern.h"
#include "text/unicode.h"
#include "text/unicode_normalize.h"
#include "text/utf8.h"

namespace lamina::text {
namespace {

class SequenceNormalizer : public Normalizer {
 public:
  explicit SequenceNormalizer(std::vector<std::unique_ptr<Normalizer>> parts) : parts_(std::move(parts)) {}
  Status Normalize(NormalizedText& text) const override {
    for (const auto& part : parts_) LAMINA_RETURN_IF_ERROR(part->Normalize(text));
    return {};
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

class UnicodeNormalizer : public Normalizer {
 public:
  explicit UnicodeNormalizer(NormalizationForm form) : form_(form) {}
  Status Normalize(NormalizedText& text) const override {
    NormalizeUnicode(form_, text);
    return {};
  }

 private:
  NormalizationForm form_;
};

// Calls rewrite(c, rewriter) for each character.
template <typename Rewrite>
void RewriteChars(NormalizedText& text, Rewrite rewrite) {
  Rewriter rewriter(text);
  rewriter.StartPart(0, text.size());
  while (!rewriter.rest().empty()) rewrite(DecodeUtf8(rewriter.rest()).code, rewriter);
  std::move(rewriter).FinishInto(text);
}

class Lowercase : public Normalizer {
 public:
  Status Normalize(NormalizedText& text) const override {
    RewriteChars(text, [](char32_t c, Rewriter& rewriter) {
      const LowercaseChars lower = ToLowercase(c);
      rewriter.Replace(lower.codes[0]);
      if (lower.count > 1) rewriter.Insert(lower.codes[1]);
    });
    return {};
  }
};

class StripAccents : public Normalizer {
 public:
  Status Normalize(NormalizedText& text) const override {
    RewriteChars(text, [](char32_t c, Rewriter& rewriter) {
      if (IsMark(c)) {
        rewriter.Skip(1);
      } else {
        rewriter.Replace(c);
      }
    });
    return {};
  }
};

// The cleaning that came with Google's neural machine translation.
class Nmt : public Normalizer {
 public:
  Status Normalize(NormalizedText& text) const override {
    RewriteChars(text, [](char32_t c, Rewriter& rewriter) {
      if ((c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F ||
          c == 0x9F) {
        rewriter.Skip(1);
      } else if (c == '\t' || c == '\n' || c == '\f' || c == '\r' || c == 0x1680 ||
                 (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF ||
                 c == 0xFFFD) {
        rewriter.Replace(' ');
      } else {
        rewriter.Replace(c);
      }
    });
    return {};
  }
};

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  Status Normalize(NormalizedText& text) const override {
    const std::string_view all = text.text();
    size_t begin = 0;
    while (left_ && begin < all.size()) {
      const Utf8Char c = DecodeUtf8(all.substr(begin));
      if (!IsWhitespace(c.code)) break;
      begin += c.length_bytes;
    }
    size_t end = all.size();
    while (right_ && end > begin) {
      size_t last = end - 1;
      while (IsUtf8Continuation(all[last])) --last;
      if (!IsWhitespace(DecodeUtf8(all.substr(last)).code)) break;
      end = last;
    }
    if (begin == 0 && end == all.size()) return {};
    Rewriter rewriter(text);
    rewriter.StartPart(begin, end);
    rewriter.Keep(end - begin);
    std::move(rewriter).FinishInto(text);
    return {};
  }

 private:
  bool left_;
  bool right_;
};

class Replace : public Normalizer {
 public:
  Replace(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  Status Normalize(NormalizedText& text) const override {
    Pattern::Matcher matcher(pattern_);
    matcher.Start(text.text());
    Rewriter rewriter(text);
    rewriter.StartPart(0, text.size());
    size_t done = 0;
    bool replaced = false;
    while (true) {
      size_t begin = 0;
      size_t end = 0;
      LAMINA_ASSIGN_OR_RETURN(const bool found, matcher.Next(begin, end));
      if (!found) break;
      replaced = true;
      rewriter.Keep(begin - done);
      rewriter.Skip(CountUtf8Chars(text.text().substr(begin, end - begin)));
      rewriter.Insert(content_);
      done = end;
    }
    if (!replaced) return {};
    rewriter.Keep(text.size() - done);
    std::move(rewriter).FinishInto(text);
    return {};
  }

 private:
  Pattern pattern_;
  std::string content_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  Status Normalize(NormalizedText& text) const override {
    if (text.size() == 0 || prefix_.empty()) return {};
    Rewriter rewriter(text);
    rewriter.StartPart(0, text.size());
    rewriter.Prepend(prefix_);
    rewriter.Keep(rewriter.rest().size());
    std::move(rewriter).FinishInto(text);
    return {};
  }

 private:
  std::string prefix_;
};

class ByteLevelNormalizer : public Normalizer {
 public:
  Status Normalize(NormalizedText& text) const override {
    RewriteChars(text, [](char32_t, Rewriter& rewriter) { rewriter.ReplaceByByteLetters(); });
    return {};
  }
};

Result<std::unique_ptr<Normalizer>> MakeSequence(const JsonFields& fields) {
  LAMINA_ASSIGN_OR_RETURN(const nlohmann::json* parts_json, fields.Array("normalizers"));
  std::vector<std::unique_ptr<Normalizer>> parts;
  for (const nlohmann::json& part_json : *parts_json) {
    LAMINA_ASSIGN_OR_RETURN(std::unique_ptr<Normalizer> part, MakeNormalizer(part_json));
    parts.push_back(std::move(part));
  }
  return std::unique_ptr<Normalizer>(std::make_unique<SequenceNormalizer>(std::move(parts)));
}

Result<std::unique_ptr<Normalizer>> MakeBert(const JsonFields& fields) {
  BertNormalizerOptions options;
  LAMINA_ASSIGN_OR_RETURN(options.clean_text, fields.Bool("clean_text"));
  LAMINA_ASSIGN_OR_RETURN(options.handle_chinese_chars, fields.Bool("handle_chinese_chars"));
  LAMINA_ASSIGN_OR_RETURN(options.lowercase, fields.Bool("lowercase"));
  LAMINA_ASSIGN_OR_RETURN(options.strip_accents, fields.Bool("strip_accents", options.lowercase));
  return MakeBertNormalizer(options);
}

}  // namespace

Result<std::unique_ptr<Normalizer>> MakeNormalizer(const nlohmann::json& json) {
  using Made = std::unique_ptr<Normalizer>;
  LAMINA_ASSIGN_OR_RETURN(const std::string type, ComponentType(json, "normalizer"));
  const JsonFields fields(json, "normalizer '" + type + "'");
  if (type == "Sequence") return MakeSequence(fields);
  if (type == "NFC") return Made(std::make_unique<UnicodeNormalizer>(NormalizationForm::kNfc));
  if (type == "NFD") return Made(std::make_unique<UnicodeNormalizer>(NormalizationForm::kNfd));
  if (type == "NFKC") return Made(std::make_unique<UnicodeNormalizer>(NormalizationForm::kNfkc));
  if (type == "NFKD") return Made(std::make_unique<UnicodeNormalizer>(NormalizationForm::kNfkd));
  if (type == "Nmt") return Made(std::make_unique<Nmt>());
  if (type == "Lowercase") return Made(std::make_unique<Lowercase>());
  if (type == "StripAccents") return Made(std::make_unique<StripAccents>());
  if (type == "ByteLevel") return Made(std::make_unique<ByteLevelNormalizer>());
  if (type == "BertNormalizer") return MakeBert(fields);
  if (type == "Strip") {
    LAMINA_ASSIGN_OR_RETURN(const bool left, fields.Bool("strip_left"));
    LAMINA_ASSIGN_OR_RETURN(const bool right, fields.Bool("strip_right"));
    return Made(std::make_unique<Strip>(left, right));
  }
  if (type == "Prepend") {
    LAMINA_ASSIGN_OR_RETURN(std::string prefix, fields.String("prepend"));
    return Made(std::make_unique<Prepend>(std::move(prefix)));
  }
  if (type == "Replace") {
    const nlohmann::json* pattern_json = fields.Find("pattern");
    if (pattern_json == nullptr) return fields.Missing("pattern");
    LAMINA_ASSIGN_OR_RETURN(Pattern pattern, Pattern::FromJson(*pattern_json, fields.what()));
    LAMINA_ASSIGN_OR_RETURN(std::string content, fields.String("content"));
    return Made(std::make_unique<Replace>(std::move(pattern), std::move(content)));
  }
  if (type == "Precompiled") {
    LAMINA_ASSIGN_OR_RETURN(const std::string encoded, fields.String("precompiled_charsmap"));
    std::string charsmap;
    if (!DecodeBase64(encoded, charsmap)) return fields.Wrong("precompiled_charsmap", "base64");
    return MakePrecompiledNormalizer(std::move(charsmap));
  }
  return UnsupportedError("normalizer '{}' is not known", type);
}

}  // namespace lamina::text
