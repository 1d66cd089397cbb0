#include "base/edit_distance.h"

#include <algorithm>
#include <cstddef>

namespace lamina {

int EditDistance(std::string_view a, std::string_view b) {
  // Rows i - 2, i - 1 and i of the table "distance of the first i of a to the first j of b".
  std::vector<int> two_before(b.size() + 1);
  std::vector<int> before(b.size() + 1);
  std::vector<int> current(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) current[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(two_before, before);
    std::swap(before, current);
    current[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int substitute = before[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({substitute, before[j] + 1, current[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], two_before[j - 2] + 1);
      }
    }
  }
  return current[b.size()];
}

std::string NearestWord(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr size_t kLongestWord = 256;  // the table is quadratic and nobody mistypes this much
  if (word.size() > kLongestWord) return "";
  std::string nearest;
  int least = -1;
  for (const std::string& candidate : candidates) {
    const int distance = EditDistance(word, candidate);
    const int allowed = std::max(1, static_cast<int>(std::max(word.size(), candidate.size()) / 3));
    if (distance <= allowed && (least < 0 || distance < least)) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace lamina
