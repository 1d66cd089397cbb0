#include "text/byte_level.h"

#include <cstring>

#include "text/utf8.h"

namespace lamina::text {
namespace {

constexpr bool IsOwnLetter(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// A letter in UTF-8.
struct SpelledLetter {
  char bytes[2] = {};
  unsigned char length = 0;
};

struct Alphabet {
  char32_t letters[256] = {};
  SpelledLetter spelled[256] = {};
  short bytes[0x144] = {};  // by letter

  constexpr Alphabet() {
    for (short& byte : bytes) byte = -1;
    char32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      letters[byte] = IsOwnLetter(byte) ? byte : next++;
      bytes[letters[byte]] = static_cast<short>(byte);
      const char32_t letter = letters[byte];
      spelled[byte].length = letter < 0x80 ? 1 : 2;
      spelled[byte].bytes[0] = static_cast<char>(letter < 0x80 ? letter : 0xC0 | letter >> 6);
      spelled[byte].bytes[1] = static_cast<char>(letter < 0x80 ? 0 : 0x80 | (letter & 0x3F));
    }
  }
};
constexpr Alphabet kAlphabet;

}  // namespace

char32_t ByteLetter(unsigned char byte) { return kAlphabet.letters[byte]; }

int LetterByte(char32_t letter) { return letter < 0x144 ? kAlphabet.bytes[letter] : -1; }

size_t WriteByteLetters(std::string_view bytes, char* out) {
  char* const begin = out;
  for (const char byte : bytes) {
    const SpelledLetter& letter = kAlphabet.spelled[static_cast<unsigned char>(byte)];
    std::memcpy(out, letter.bytes, sizeof(letter.bytes));
    out += letter.length;
  }
  return static_cast<size_t>(out - begin);
}

std::string BytesToLetters(std::string_view bytes) {
  std::string letters(bytes.size() * 2 + 1, '\0');
  letters.resize(WriteByteLetters(bytes, letters.data()));
  return letters;
}

bool LettersToBytes(std::string_view letters, std::string& out) {
  const size_t before = out.size();
  while (!letters.empty()) {
    const Utf8Char c = DecodeUtf8(letters);
    const int byte = LetterByte(c.code);
    if (byte < 0) {
      out.resize(before);
      return false;
    }
    out.push_back(static_cast<char>(byte));
    letters.remove_prefix(c.length_bytes);
  }
  return true;
}

}  // namespace lamina::text
