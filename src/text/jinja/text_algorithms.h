// What string methods and filters both do with text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"

namespace lamina::jinja {

// str.split without a separator; `max_splits` below 0: no limit.
std::vector<std::string_view> SplitAtSpace(std::string_view text, Int max_splits, bool from_right);
// str.split with a separator, which is not empty.
std::vector<std::string_view> SplitAt(std::string_view text, std::string_view separator, Int max_splits,
                                      bool from_right);
std::vector<std::string_view> SplitLines(std::string_view text, bool keep_ends);
// A list of strings, markup where `like` is.
Value MakeTextList(Runtime& runtime, const Value& like, const std::vector<std::string_view>& parts);

// str.strip(characters)
std::string_view StripCharacters(std::string_view text, std::string_view characters, bool left, bool right);
bool EndsWith(std::string_view text, std::string_view suffix);
// str.replace; `count` below 0: all. Empty after a failure.
std::string ReplaceText(Runtime& runtime, std::string_view text, std::string_view old_text,
                        std::string_view new_text, Int count);

// str.islower and so on.
bool IsLowerText(std::string_view text);
bool IsUpperText(std::string_view text);
bool IsTitleText(std::string_view text);
bool IsIdentifier(std::string_view text);

}  // namespace lamina::jinja
