// SentencePiece's compiled normalization map: a double-array trie (as Darts-clone lays it out) from character
// sequences to their replacements. Layout of the blob: 32-bit little-endian size of the trie in bytes, the
// trie's 32-bit units, then the replacements, each ended by a zero byte.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/status.h"

namespace lamina::text {

class CharsMap {
 public:
  // INVALID_MODEL where the sizes do not fit together.
  static Result<CharsMap> Parse(std::string blob);

  struct Match {
    size_t length_bytes = 0;
    std::string_view replacement;
  };
  // Of the map's entries that begin `text`, the shortest or the longest.
  std::optional<Match> ShortestPrefix(std::string_view text) const;
  std::optional<Match> LongestPrefix(std::string_view text) const;

 private:
  std::optional<Match> Search(std::string_view text, bool longest) const;
  std::string_view Replacement(uint32_t offset) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace lamina::text
