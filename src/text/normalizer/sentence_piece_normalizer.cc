#include "text/normalizer/sentence_piece_normalizer.h"

#include <string_view>
#include <utility>

#include "text/utf8.h"

namespace lamina::text {
namespace {

constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";  // U+2581

class SentencePieceNormalizer : public Normalizer {
 public:
  SentencePieceNormalizer(const SentencePieceNormalizerOptions& options, std::optional<CharsMap> map,
                          std::vector<std::string> user_defined)
      : options_(options), map_(std::move(map)), user_defined_spellings_(std::move(user_defined)) {
    std::vector<std::pair<std::string_view, int32_t>> entries;
    for (const std::string& spelling : user_defined_spellings_) entries.emplace_back(spelling, 0);
    user_defined_ = ByteTrie(std::move(entries));
  }

  Status Normalize(NormalizedText& text) const override {
    Rewriter rewriter(text);
    rewriter.StartPart(0, text.size());
    if (options_.remove_extra_whitespaces) {
      while (!rewriter.rest().empty()) {
        const CharsMap::Match prefix = NormalizePrefix(rewriter.rest());
        if (prefix.replacement != " ") break;
        rewriter.ReplaceBytes(prefix.length_bytes, {});
      }
    }
    // A text of nothing but spaces is empty, without a dummy prefix.
    if (!rewriter.rest().empty()) NormalizeRest(rewriter);
    std::move(rewriter).FinishInto(text);
    return {};
  }

 private:
  std::string_view space() const {
    return options_.escape_whitespaces ? kSpaceSymbol : std::string_view(" ");
  }

  // What the characters at the start of `text` become.
  CharsMap::Match NormalizePrefix(std::string_view text) const {
    if (const size_t length = user_defined_.LongestPrefix(text).first; length > 0) {
      return {length, text.substr(0, length)};
    }
    if (map_) {
      if (const std::optional<CharsMap::Match> match = map_->LongestPrefix(text)) return *match;
    }
    const uint32_t length = Utf8Length(text[0]);
    return {length, text.substr(0, length)};
  }

  void NormalizeRest(Rewriter& rewriter) const {
    if (options_.add_dummy_prefix && !options_.whitespace_as_suffix) rewriter.Insert(space());
    bool after_space = options_.remove_extra_whitespaces;
    std::string replacement;
    while (!rewriter.rest().empty()) {
      CharsMap::Match prefix = NormalizePrefix(rewriter.rest());
      while (after_space && prefix.replacement.starts_with(' ')) prefix.replacement.remove_prefix(1);
      if (!prefix.replacement.empty()) {
        after_space = options_.remove_extra_whitespaces && prefix.replacement.ends_with(' ');
      }
      replacement.clear();
      for (char c : prefix.replacement) {
        if (c == ' ') {
          replacement += space();
        } else {
          replacement += c;
        }
      }
      rewriter.ReplaceBytes(prefix.length_bytes, replacement);
    }
    if (options_.remove_extra_whitespaces) {
      while (rewriter.written().ends_with(space())) rewriter.DropLastBytes(space().size());
    }
    if (options_.add_dummy_prefix && options_.whitespace_as_suffix) rewriter.Insert(space());
  }

  SentencePieceNormalizerOptions options_;
  std::optional<CharsMap> map_;
  std::vector<std::string> user_defined_spellings_;
  ByteTrie user_defined_;
};

}  // namespace

std::unique_ptr<Normalizer> MakeSentencePieceNormalizer(const SentencePieceNormalizerOptions& options,
                                                        std::optional<CharsMap> map,
                                                        std::vector<std::string> user_defined) {
  return std::make_unique<SentencePieceNormalizer>(options, std::move(map), std::move(user_defined));
}

}  // namespace lamina::text
