#include "base/text.h"

#include <algorithm>

namespace lamina {

std::string_view TrimSpaces(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

std::vector<std::string_view> SplitTrimmed(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    const std::string_view piece = TrimSpaces(text.substr(begin, end - begin));
    if (!piece.empty()) pieces.push_back(piece);
    begin = end + 1;
  }
  return pieces;
}

}  // namespace lamina
