// UTF-8 as the tokenizers read it. "Valid" means Unicode's definition: shortest form, no surrogates, at most
// U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lamina::text {

struct Utf8Char {
  char32_t code = 0;
  uint32_t length_bytes = 0;
};

// Length of the character whose first byte is `lead`. REQUIRES: valid UTF-8.
inline uint32_t Utf8Length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

inline bool IsUtf8Continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// The character at the start of `text`. REQUIRES: `text` is not empty and valid.
inline Utf8Char DecodeUtf8(std::string_view text) {
  const auto* p = reinterpret_cast<const unsigned char*>(text.data());
  if (p[0] < 0x80) return {p[0], 1};
  if (p[0] < 0xE0) return {static_cast<char32_t>((p[0] & 0x1F) << 6 | (p[1] & 0x3F)), 2};
  if (p[0] < 0xF0) {
    return {static_cast<char32_t>((p[0] & 0x0F) << 12 | (p[1] & 0x3F) << 6 | (p[2] & 0x3F)), 3};
  }
  return {
      static_cast<char32_t>((p[0] & 0x07) << 18 | (p[1] & 0x3F) << 12 | (p[2] & 0x3F) << 6 | (p[3] & 0x3F)),
      4};
}

// Appends `code`. REQUIRES: a Unicode scalar value.
void AppendUtf8(char32_t code, std::string& out);
std::string EncodeUtf8(char32_t code);

// Number of characters. REQUIRES: valid UTF-8.
size_t CountUtf8Chars(std::string_view text);

// Length of the longest valid prefix; text.size() where all of it is valid.
size_t ValidUtf8Prefix(std::string_view text);

inline constexpr std::string_view kReplacementChar = "\xEF\xBF\xBD";

// How an invalid sequence begins at the start of `text`: the length of the maximal part that could begin a
// character (at least 1), which one U+FFFD replaces, and whether `text` ends inside it, so that more bytes
// might still complete the character. REQUIRES: the first character of `text` is not valid.
struct InvalidUtf8 {
  size_t length_bytes = 0;
  bool incomplete = false;
};
InvalidUtf8 ClassifyInvalidUtf8(std::string_view text);

// What one U+FFFD stands for.
enum class InvalidUtf8Unit { kMaximalPart, kByte };
std::string ReplaceInvalidUtf8(std::string_view text, InvalidUtf8Unit unit);

}  // namespace lamina::text
