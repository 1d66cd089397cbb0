// GPT-2's alphabet: each byte written as one printable character, so that any text is a word over 256
// letters. Printable bytes of Latin-1 stand for themselves, the others for U+0100 and up in order ("Ġ" is the
// space).
#pragma once

#include <string>
#include <string_view>

namespace lamina::text {

// The letter of each byte.
char32_t ByteLetter(unsigned char byte);
// The byte of a letter; -1 for any other character.
int LetterByte(char32_t letter);

// Bytes as letters.
std::string BytesToLetters(std::string_view bytes);
// The same into `out`, which has room for 2 * bytes.size() + 1; returns how many bytes the letters take.
size_t WriteByteLetters(std::string_view bytes, char* out);
// Letters as bytes, appended to `out`; false (and nothing appended) where a character is no letter. REQUIRES:
// valid UTF-8.
bool LettersToBytes(std::string_view letters, std::string& out);

}  // namespace lamina::text
