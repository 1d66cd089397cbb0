// Precompiled: SentencePiece's normalization map as the reference library applies it, grapheme by grapheme
// and with the shortest entry that begins one. (SentencePiece itself takes the longest entry at each
// position; see format/sentence_piece.)
#include "text/chars_map.h"
#include "text/normalizer/normalizer.h"
#include "text/unicode_normalize.h"
#include "text/utf8.h"

namespace lamina::text {
namespace {

// Longer graphemes are looked up character by character.
constexpr size_t kMaxGraphemeBytes = 5;

class Precompiled : public Normalizer {
 public:
  explicit Precompiled(CharsMap map) : map_(std::move(map)) {}

  Status Normalize(NormalizedText& text) const override {
    Rewriter rewriter(text);
    rewriter.StartPart(0, text.size());
    const std::string_view all = text.text();
    bool modified = false;
    for (size_t pos = 0; pos < all.size();) {
      const std::string_view grapheme = all.substr(pos, GraphemeLength(all.substr(pos)));
      pos += grapheme.size();
      if (grapheme.size() <= kMaxGraphemeBytes && Map(grapheme, rewriter)) {
        modified = true;
        continue;
      }
      for (size_t i = 0; i < grapheme.size();) {
        const Utf8Char c = DecodeUtf8(grapheme.substr(i));
        if (Map(grapheme.substr(i, c.length_bytes), rewriter)) {
          modified = true;
        } else {
          rewriter.Emit(c.code, 0);
        }
        i += c.length_bytes;
      }
    }
    if (modified) std::move(rewriter).FinishInto(text);
    return {};
  }

 private:
  // Replaces `part` by its entry; false where it has none. How sources are shared out is the reference's
  // rule.
  bool Map(std::string_view part, Rewriter& rewriter) const {
    const std::optional<CharsMap::Match> match = map_.ShortestPrefix(part);
    if (!match) return false;
    std::string_view replacement = match->replacement;
    const auto old_count = static_cast<long>(CountUtf8Chars(part));
    const auto new_count = static_cast<long>(CountUtf8Chars(replacement));
    for (long i = 0; !replacement.empty(); ++i) {
      const Utf8Char c = DecodeUtf8(replacement);
      rewriter.Emit(c.code, i == 0 ? new_count - old_count : i);
      replacement.remove_prefix(c.length_bytes);
    }
    return true;
  }

  CharsMap map_;
};

}  // namespace

Result<std::unique_ptr<Normalizer>> MakePrecompiledNormalizer(std::string charsmap) {
  LAMINA_ASSIGN_OR_RETURN(CharsMap map, CharsMap::Parse(std::move(charsmap)));
  return std::unique_ptr<Normalizer>(std::make_unique<Precompiled>(std::move(map)));
}

}  // namespace lamina::text
