#include "text/byte_level.h"

#include "text/utf8.h"

namespace lamina::text {
namespace {

constexpr bool IsOwnLetter(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  char32_t letters[256] = {};
  short bytes[0x144] = {};  // by letter

  constexpr Alphabet() {
    for (short& byte : bytes) byte = -1;
    char32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      letters[byte] = IsOwnLetter(byte) ? byte : next++;
      bytes[letters[byte]] = static_cast<short>(byte);
    }
  }
};
constexpr Alphabet kAlphabet;

}  // namespace

char32_t ByteLetter(unsigned char byte) { return kAlphabet.letters[byte]; }

int LetterByte(char32_t letter) { return letter < 0x144 ? kAlphabet.bytes[letter] : -1; }

std::string BytesToLetters(std::string_view bytes) {
  std::string letters;
  letters.reserve(bytes.size() * 2);
  for (char byte : bytes) AppendUtf8(ByteLetter(static_cast<unsigned char>(byte)), letters);
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
