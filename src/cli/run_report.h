// What `lamina run` says about an answer beside its text.
#pragma once

#include <string>
#include <string_view>

#include "cli/text_model.h"
#include "generate/generator.h"

namespace lamina::cli {

// For --verbose: durations, counts and rates; bytes of weights a token and GB/s beside the memory bandwidth
// that was measured just now (which takes a moment).
std::string VerboseReport(const TextModel& model, const Generation& answer, uint64_t seed);

// For --json: a line for a piece of text, and the last line.
std::string JsonPiece(std::string_view text);
std::string JsonSummary(const TextModel& model, const Generation& answer, uint64_t seed);

// Text of the answers after the best that a search with beams returned; each ends with a line break, an empty
// line stands before it.
std::string OtherSequences(const Generation& answer);

}  // namespace lamina::cli
