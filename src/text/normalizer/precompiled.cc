// Precompiled: SentencePiece's normalization map as the reference library applies it, grapheme by grapheme
// and with the shortest entry that begins one. (SentencePiece itself takes the longest entry at each
// position; see format/sentence_piece.)
#include <vector>

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
    const std::string_view all = text.text();
    std::vector<Change> changes;
    changes.reserve(all.size());
    bool modified = false;
    for (size_t pos = 0; pos < all.size();) {
      const std::string_view grapheme = all.substr(pos, GraphemeLength(all.substr(pos)));
      pos += grapheme.size();
      if (grapheme.size() <= kMaxGraphemeBytes && Map(grapheme, changes)) {
        modified = true;
        continue;
      }
      for (size_t i = 0; i < grapheme.size();) {
        const Utf8Char c = DecodeUtf8(grapheme.substr(i));
        if (Map(grapheme.substr(i, c.length_bytes), changes)) {
          modified = true;
        } else {
          changes.push_back({c.code, 0});
        }
        i += c.length_bytes;
      }
    }
    if (!modified) return {};
    Rewriter rewriter(text);
    rewriter.StartPart(0, text.size());
    for (const Change& change : changes) rewriter.Emit(change.code, change.change);
    std::move(rewriter).FinishInto(text);
    return {};
  }

 private:
  // As Rewriter::Emit takes it.
  struct Change {
    char32_t code;
    long change;
  };

  // Replaces `part` by its entry; false where it has none. How sources are shared out is the reference's
  // rule: characters too many are inserted behind the others; characters too few vanish behind the last one,
  // be it one of the text before, and where there is none they are not counted at all.
  bool Map(std::string_view part, std::vector<Change>& changes) const {
    const std::optional<CharsMap::Match> match = map_.ShortestPrefix(part);
    if (!match) return false;
    std::string_view replacement = match->replacement;
    const auto old_count = static_cast<long>(CountUtf8Chars(part));
    const auto new_count = static_cast<long>(CountUtf8Chars(replacement));
    for (long i = 0; !replacement.empty(); ++i) {
      const Utf8Char c = DecodeUtf8(replacement);
      changes.push_back({c.code, i < old_count ? 0 : 1});
      replacement.remove_prefix(c.length_bytes);
    }
    if (new_count < old_count && !changes.empty()) changes.back().change += new_count - old_count;
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
