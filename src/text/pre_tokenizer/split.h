// The two questions of every cut: where are the delimiters, and what becomes of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/status.h"
#include "text/normalized_text.h"
#include "text/utf8.h"

namespace lamina::text {

// What becomes of delimiters. For "the-final--countdown" cut at '-':
enum class DelimiterBehavior {
  kRemoved,             // the | final | countdown
  kIsolated,            // the | - | final | - | - | countdown
  kMergedWithPrevious,  // the- | final- | - | countdown
  kMergedWithNext,      // the | -final | - | -countdown
  kContiguous,          // the | - | final | -- | countdown
};

// "Isolated", "isolated" and so on; INVALID_MODEL names `what` for anything else.
Result<DelimiterBehavior> ParseDelimiterBehavior(const std::string& name, const std::string& what);

// A stretch of a piece, delimiter or not. Stretches lie end to end; they may be empty.
struct Stretch {
  uint32_t begin = 0;
  uint32_t end = 0;
  bool is_delimiter = false;
};

// Appends the pieces that `stretches` make. Changes `stretches`.
void AppendPieces(std::vector<Stretch>& stretches, DelimiterBehavior behavior,
                  std::vector<PieceRange>& pieces);

// Cuts every piece at the characters for which is_delimiter(c), each a delimiter of its own.
template <typename IsDelimiter>
void SplitAtChars(PreTokenizedText& text, DelimiterBehavior behavior, IsDelimiter is_delimiter) {
  std::vector<PieceRange> pieces;
  std::vector<Stretch> stretches;
  const std::string_view all = text.text.text();
  for (const PieceRange& piece : text.pieces) {
    stretches.clear();
    uint32_t begin = piece.begin;
    for (uint32_t pos = piece.begin; pos < piece.end;) {
      const Utf8Char c = DecodeUtf8(all.substr(pos));
      if (is_delimiter(c.code)) {
        if (begin < pos) stretches.push_back({begin, pos, false});
        begin = pos + c.length_bytes;
        stretches.push_back({pos, begin, true});
      }
      pos += c.length_bytes;
    }
    if (begin < piece.end) stretches.push_back({begin, piece.end, false});
    AppendPieces(stretches, behavior, pieces);
  }
  text.pieces = std::move(pieces);
}

}  // namespace lamina::text
