// The sequence breakers of DRY as tokens: texts in which a repetition ends, in all spellings of a vocabulary.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lamina/status.h"
#include "text/tokenizer.h"

namespace lamina {

// For each breaker: every token whose text contains it, and every token whose text ends in a beginning of it
// followed by the tokens of the rest. Empty breakers are left out. Walks over the vocabulary.
Result<std::vector<std::vector<int32_t>>> DrySequenceBreakers(const Tokenizer& tokenizer,
                                                              std::span<const std::string> breakers);

}  // namespace lamina
