#include "text/pre_tokenizer/pattern_split.h"

#include <utility>
#include <vector>

namespace lamina::text {

Status PatternSplit::Split(PreTokenizedText& text) const {
  Pattern::Matcher matcher(pattern_);
  std::vector<PieceRange> pieces;
  pieces.reserve(text.pieces.size() + text.text.size() / 4);
  std::vector<Stretch> stretches;
  for (const PieceRange& piece : text.pieces) {
    matcher.Start(text.Piece(piece));
    stretches.clear();
    uint32_t done = piece.begin;
    while (true) {
      size_t match_begin = 0;
      size_t match_end = 0;
      LAMINA_ASSIGN_OR_RETURN(const bool found, matcher.Next(match_begin, match_end));
      if (!found) break;
      const uint32_t begin = piece.begin + static_cast<uint32_t>(match_begin);
      const uint32_t end = piece.begin + static_cast<uint32_t>(match_end);
      if (done < begin) stretches.push_back({done, begin, inverted_});
      stretches.push_back({begin, end, !inverted_});
      done = end;
    }
    if (done < piece.end) stretches.push_back({done, piece.end, inverted_});
    AppendPieces(stretches, behavior_, pieces);
  }
  text.pieces = std::move(pieces);
  return {};
}

}  // namespace lamina::text
