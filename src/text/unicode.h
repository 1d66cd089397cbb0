// What the tokenizers ask about a character. The answers are those of the reference library
// (unicode_tables.h).
#pragma once

#include <array>
#include <cstdint>

namespace lamina::text {

bool IsWhitespace(char32_t c);  // White_Space
bool IsControl(char32_t c);     // control, format and private use, except tab, line feed and carriage return
bool IsMark(char32_t c);        // what StripAccents removes
bool IsNonspacingMark(char32_t c);  // what BertNormalizer removes
bool IsPunctuation(char32_t c);
bool IsNumeric(char32_t c);
bool IsWordChar(char32_t c);
// The blocks that BERT cuts into single characters; not Japanese or Korean scripts.
bool IsChineseChar(char32_t c);

// A number for the script of `c`, equal for characters that UnicodeScripts keeps together: Hiragana, Katakana
// and Han are one script. kAnyScript for the space and for what is not assigned, which go with every script.
inline constexpr int kAnyScript = -1;
int ScriptOf(char32_t c);

// The lower case: one character, or two (U+0130).
struct LowercaseChars {
  std::array<char32_t, 2> codes;
  int count;
};
LowercaseChars ToLowercase(char32_t c);

}  // namespace lamina::text
