// Unicode normalization forms, character by character with the description of each change that a Rewriter
// needs. Data: utf8proc, without the few mappings that are younger than the reference library's tables.
#pragma once

#include "text/normalized_text.h"

namespace lamina::text {

enum class NormalizationForm { kNfc, kNfd, kNfkc, kNfkd };

void NormalizeUnicode(NormalizationForm form, NormalizedText& text);

// Length of the extended grapheme cluster at the start of `text`. REQUIRES: not empty, valid UTF-8.
size_t GraphemeLength(std::string_view text);

}  // namespace lamina::text
