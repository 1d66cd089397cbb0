// BertNormalizer: the cleaning of BERT's original tokenizer.
#include "text/normalizer/normalizer.h"
#include "text/unicode.h"
#include "text/unicode_normalize.h"
#include "text/utf8.h"

namespace lamina::text {
namespace {

class BertNormalizer : public Normalizer {
 public:
  explicit BertNormalizer(const BertNormalizerOptions& options) : options_(options) {}

  Status Normalize(NormalizedText& text) const override {
    if (options_.clean_text || options_.handle_chinese_chars) CleanAndSpace(text);
    if (options_.strip_accents) StripAccents(text);
    if (options_.lowercase) Lowercase(text);
    return {};
  }

 private:
  void CleanAndSpace(NormalizedText& text) const {
    Rewriter rewriter(text);
    rewriter.StartPart(0, text.size());
    while (!rewriter.rest().empty()) {
      const char32_t c = DecodeUtf8(rewriter.rest()).code;
      if (options_.clean_text && (c == 0 || c == 0xFFFD || IsControl(c))) {
        rewriter.Skip(1);
      } else if (options_.clean_text && IsWhitespace(c)) {
        rewriter.Replace(' ');
      } else if (options_.handle_chinese_chars && IsChineseChar(c)) {
        // All three have the source of the character.
        rewriter.Replace(U' ');
        rewriter.Insert(c);
        rewriter.Insert(U' ');
      } else {
        rewriter.Replace(c);
      }
    }
    std::move(rewriter).FinishInto(text);
  }

  static void StripAccents(NormalizedText& text) {
    NormalizeUnicode(NormalizationForm::kNfd, text);
    Rewriter rewriter(text);
    rewriter.StartPart(0, text.size());
    while (!rewriter.rest().empty()) {
      const char32_t c = DecodeUtf8(rewriter.rest()).code;
      if (IsNonspacingMark(c)) {
        rewriter.Skip(1);
      } else {
        rewriter.Replace(c);
      }
    }
    std::move(rewriter).FinishInto(text);
  }

  static void Lowercase(NormalizedText& text) {
    Rewriter rewriter(text);
    rewriter.StartPart(0, text.size());
    while (!rewriter.rest().empty()) {
      const LowercaseChars lower = ToLowercase(DecodeUtf8(rewriter.rest()).code);
      rewriter.Replace(lower.codes[0]);
      if (lower.count > 1) rewriter.Insert(lower.codes[1]);
    }
    std::move(rewriter).FinishInto(text);
  }

  BertNormalizerOptions options_;
};

}  // namespace

std::unique_ptr<Normalizer> MakeBertNormalizer(const BertNormalizerOptions& options) {
  return std::make_unique<BertNormalizer>(options);
}

}  // namespace lamina::text
