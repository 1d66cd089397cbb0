// Suggestions for mistyped words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lamina {

// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b` (optimal string
// alignment).
int EditDistance(std::string_view a, std::string_view b);

// The candidate closest to `word`, first in order among equals; empty where none is close enough to be meant
// (more than a third of the longer word differs).
std::string NearestWord(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace lamina
