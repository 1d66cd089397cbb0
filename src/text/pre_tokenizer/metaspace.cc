#include "text/pre_tokenizer/metaspace.h"

#include <utility>
#include <vector>

#include "text/utf8.h"

namespace lamina::text {

Result<PrependScheme> ParsePrependScheme(const JsonFields& fields) {
  LAMINA_ASSIGN_OR_RETURN(const std::string scheme, fields.String("prepend_scheme", ""));
  LAMINA_ASSIGN_OR_RETURN(const bool add_prefix_space, fields.Bool("add_prefix_space", true));
  if (!scheme.empty() && scheme != "always" && scheme != "never" && scheme != "first") {
    return fields.Wrong("prepend_scheme", "always, never or first");
  }
  if (!add_prefix_space && (scheme == "always" || scheme == "first")) {
    return fields.Wrong("add_prefix_space", "true, as prepend_scheme says");
  }
  if (!add_prefix_space || scheme == "never") return PrependScheme::kNever;
  return scheme == "first" ? PrependScheme::kFirst : PrependScheme::kAlways;
}

Metaspace::Metaspace(char32_t replacement, PrependScheme scheme, bool split)
    : replacement_(EncodeUtf8(replacement)), scheme_(scheme), split_(split) {}

Status Metaspace::Split(PreTokenizedText& text) const {
  Rewriter rewriter(text.text);
  std::vector<PieceRange> pieces;
  for (const PieceRange& piece : text.pieces) {
    // A piece ends before each replacement character; several in a row are pieces of their own.
    auto begin = static_cast<uint32_t>(rewriter.size());
    const auto cut = [&] {
      const auto end = static_cast<uint32_t>(rewriter.size());
      if (split_ && begin < end) pieces.push_back({std::exchange(begin, end), end});
    };
    rewriter.StartPart(piece.begin, piece.end);
    const std::string_view rest = rewriter.rest();
    const bool has_replacement = rest.starts_with(' ') || rest.starts_with(replacement_);
    const bool prepend = scheme_ == PrependScheme::kAlways ||
                         (scheme_ == PrependScheme::kFirst && text.text.SourceOfByte(piece.begin).begin == 0);
    if (prepend && !has_replacement) {
      rewriter.Prepend(replacement_);
    }
    while (!rewriter.rest().empty()) {
      if (rewriter.rest()[0] == ' ') {
        cut();
        rewriter.Replace(DecodeUtf8(replacement_).code);
      } else if (rewriter.rest().starts_with(replacement_)) {
        cut();
        rewriter.Keep(replacement_.size());
      } else {
        rewriter.Keep(Utf8Length(rewriter.rest()[0]));
      }
    }
    const auto end = static_cast<uint32_t>(rewriter.size());
    if (begin < end) pieces.push_back({begin, end});
  }
  std::move(rewriter).FinishInto(text.text);
  text.pieces = std::move(pieces);
  return {};
}

}  // namespace lamina::text
