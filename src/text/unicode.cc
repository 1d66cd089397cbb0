#include "text/unicode.h"

#include <algorithm>
#include <span>

#include "text/unicode_tables.h"

namespace lamina::text {
namespace {

template <typename Range>
const Range* FindRange(std::span<const Range> ranges, char32_t c) {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), c,
                                      [](char32_t code, const Range& range) { return code < range.first; });
  if (after == ranges.begin()) return nullptr;
  const Range& range = *(after - 1);
  return c <= range.last ? &range : nullptr;
}

bool Contains(std::span<const CodeRange> ranges, char32_t c) { return FindRange(ranges, c) != nullptr; }

}  // namespace

bool IsWhitespace(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool IsControl(char32_t c) { return Contains(ControlRanges(), c); }
bool IsMark(char32_t c) { return c >= 0x300 && Contains(MarkRanges(), c); }
bool IsNonspacingMark(char32_t c) { return c >= 0x300 && Contains(NonspacingMarkRanges(), c); }
bool IsPunctuation(char32_t c) { return Contains(PunctuationRanges(), c); }

bool IsNumeric(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  return Contains(NumericRanges(), c);
}

bool IsWordChar(char32_t c) {
  if (c < 0x80) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  return Contains(WordRanges(), c);
}

bool IsChineseChar(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

int ScriptOf(char32_t c) {
  if (c == ' ') return kAnyScript;
  const ScriptRange* range = FindRange(ScriptRanges(), c);
  return range != nullptr ? range->script : kAnyScript;
}

LowercaseChars ToLowercase(char32_t c) {
  if (c < 0x80) return {{c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c, 0}, 1};
  if (c == 0x130) return {{'i', 0x307}, 2};
  const std::span<const LowercasePair> pairs = LowercasePairs();
  const auto found =
      std::lower_bound(pairs.begin(), pairs.end(), c,
                       [](const LowercasePair& pair, char32_t code) { return pair.from < code; });
  const bool has_lower = found != pairs.end() && found->from == c;
  return {{has_lower ? found->to : c, 0}, 1};
}

}  // namespace lamina::text
