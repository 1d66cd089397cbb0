// Numbers of tokenizer.json, with the value that the reference library gives them.
#pragma once

#include <optional>
#include <string_view>

namespace lamina::text {

struct JsonNumber {
  double value = 0;
  size_t length = 0;  // bytes of its text
};

// The number that `text` begins with, rounded as serde_json does: as many digits as fit in 64 bits become an
// integer, which is then multiplied with or divided by a power of ten. For numbers of up to 15 digits that is
// the nearest double. Longer ones, such as the scores of Unigram models, may come out one unit in the last
// place away, and which of two segmentations with the same tokens has the better sum depends on it. Nothing
// where `text` begins with no JSON number, or with one beyond the range of double.
std::optional<JsonNumber> ParseJsonNumber(std::string_view text);

}  // namespace lamina::text
