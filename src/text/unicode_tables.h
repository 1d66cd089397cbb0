// Classes of code points as the reference library has them. Its parts use different versions of Unicode, so
// one library's properties would not do: these tables are what it answers for each code point.
#pragma once

#include <span>

namespace lamina::text {

struct CodeRange {
  char32_t first;
  char32_t last;
};
struct ScriptRange {
  char32_t first;
  char32_t last;
  int script;  // equal for code points of one script
};
struct LowercasePair {
  char32_t from;
  char32_t to;
};

// All ascending.
std::span<const CodeRange> ControlRanges();         // removed by BertNormalizer's clean_text
std::span<const CodeRange> MarkRanges();            // removed by StripAccents
std::span<const CodeRange> NonspacingMarkRanges();  // removed by BertNormalizer's strip_accents
std::span<const CodeRange> PunctuationRanges();     // BertPreTokenizer and Punctuation
std::span<const CodeRange> NumericRanges();         // Digits
std::span<const CodeRange> WordRanges();            // \w of Whitespace and of added tokens' single_word
std::span<const ScriptRange> ScriptRanges();
std::span<const LowercasePair> LowercasePairs();  // where the lower case is one character

}  // namespace lamina::text
