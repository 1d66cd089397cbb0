// Small things that parsers of options share.
#pragma once

#include <string_view>
#include <vector>

namespace lamina {

// Without spaces, tabs and line breaks at both ends.
std::string_view TrimSpaces(std::string_view text);

// The trimmed pieces between `separator`s, empty ones left out.
std::vector<std::string_view> SplitTrimmed(std::string_view text, char separator);

}  // namespace lamina
