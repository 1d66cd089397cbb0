// Unicode text as Python's str sees it: code points, white space, case. Text is valid UTF-8 throughout.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lamina::jinja {

size_t CountCodePoints(std::string_view text);
// The code point that starts at byte `*position`, which moves behind it.
char32_t NextCodePoint(std::string_view text, size_t* position);
// The byte where the code point with number `index` starts; the end where there are fewer.
size_t ByteOffset(std::string_view text, size_t index);
void AppendCodePoint(char32_t code_point, std::string* text);
// The text with each maximal invalid part replaced by U+FFFD.
std::string ToValidUtf8(std::string_view bytes);
bool IsValidUtf8(std::string_view bytes);

// str.isspace of one character.
bool IsSpace(char32_t code_point);
// What str.splitlines splits at.
bool IsLineBreak(char32_t code_point);
bool IsPrintable(char32_t code_point);
bool IsAlphabetic(char32_t code_point);
bool IsDecimal(char32_t code_point);
bool IsDigit(char32_t code_point);
bool IsNumeric(char32_t code_point);
// The value of a decimal digit of any script; -1 for other characters.
int DecimalValue(char32_t code_point);
bool IsUpper(char32_t code_point);
bool IsLower(char32_t code_point);
bool IsTitle(char32_t code_point);
bool IsIdentifierStart(char32_t code_point);
bool IsIdentifierPart(char32_t code_point);
inline bool IsAlphanumeric(char32_t c) { return IsAlphabetic(c) || IsNumeric(c); }
inline bool IsCased(char32_t c) { return IsUpper(c) || IsLower(c) || IsTitle(c); }
// `\w` of Python's regular expressions.
inline bool IsWordCharacter(char32_t c) { return c == '_' || IsAlphanumeric(c); }

// Full case mappings of str.upper, lower, casefold, title, capitalize and swapcase.
std::string ToUpper(std::string_view text);
std::string ToLower(std::string_view text);
std::string FoldCase(std::string_view text);
std::string ToTitle(std::string_view text);
std::string Capitalize(std::string_view text);
std::string SwapCase(std::string_view text);

// Without white space at the ends.
std::string_view StripSpace(std::string_view text, bool left = true, bool right = true);
bool AllSpace(std::string_view text);

}  // namespace lamina::jinja
