// Finds stop strings in text that comes piece by piece, and holds back text that may be the start of one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lamina {

class StopMatcher {
 public:
  // Empty stop strings are ignored.
  explicit StopMatcher(std::vector<std::string> stops);

  // Adds text; returns what is certain not to belong to a stop string. After a match: the text before it, and
  // matched() is true; later pieces are ignored. The earliest match counts, of several there the longest.
  std::string Push(std::string_view piece);
  // The text still held back; empty after a match.
  std::string Finish();
  bool matched() const { return matched_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool matched_ = false;
};

}  // namespace lamina
