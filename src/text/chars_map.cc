#include "text/chars_map.h"

#include <cstring>

#include "base/error.h"
#include "text/utf8.h"

namespace lamina::text {
namespace {

bool HasLeaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t Label(uint32_t unit) { return unit & (1u << 31 | 0xFF); }
size_t Offset(uint32_t unit) { return static_cast<size_t>(unit >> 10) << ((unit & 1u << 9) >> 6); }

}  // namespace

Result<CharsMap> CharsMap::Parse(std::string blob) {
  uint32_t trie_bytes = 0;
  if (blob.size() < sizeof(trie_bytes))
    return InvalidModelError("precompiled_charsmap: {} bytes are too few", blob.size());
  std::memcpy(&trie_bytes, blob.data(), sizeof(trie_bytes));
  if (trie_bytes % 4 != 0 || trie_bytes > blob.size() - 4) {
    return InvalidModelError("precompiled_charsmap: trie of {} bytes in a blob of {}", trie_bytes,
                             blob.size());
  }
  CharsMap map;
  map.units_.resize(trie_bytes / 4);
  std::memcpy(map.units_.data(), blob.data() + 4, trie_bytes);
  map.replacements_ = blob.substr(4 + trie_bytes);
  if (ValidUtf8Prefix(map.replacements_) != map.replacements_.size()) {
    return InvalidModelError("precompiled_charsmap: replacements are not valid UTF-8");
  }
  return map;
}

std::string_view CharsMap::Replacement(uint32_t offset) const {
  if (offset >= replacements_.size() || IsUtf8Continuation(replacements_[offset])) return {};
  return {replacements_.data() + offset};  // std::string ends in a zero byte
}

std::optional<CharsMap::Match> CharsMap::Search(std::string_view text, bool longest) const {
  std::optional<Match> match;
  if (units_.empty()) return match;
  size_t node = Offset(units_[0]);
  for (size_t pos = 0; pos < text.size(); ++pos) {
    const auto byte = static_cast<unsigned char>(text[pos]);
    if (byte == 0) break;
    node ^= byte;
    if (node >= units_.size() || Label(units_[node]) != byte) break;
    const uint32_t unit = units_[node];
    node ^= Offset(unit);
    if (HasLeaf(unit)) {
      if (node >= units_.size()) break;
      match = {pos + 1, Replacement(units_[node] & 0x7FFFFFFF)};
      if (!longest) break;
    }
  }
  return match;
}

std::optional<CharsMap::Match> CharsMap::ShortestPrefix(std::string_view text) const {
  return Search(text, false);
}
std::optional<CharsMap::Match> CharsMap::LongestPrefix(std::string_view text) const {
  return Search(text, true);
}

}  // namespace lamina::text
