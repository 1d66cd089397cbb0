// Prompt lookup: speculation without a draft model. Text often repeats what stands before it, so the tokens
// that once followed the present ending are proposed; the model checks all of them in one step.
//
//   const std::span<const int32_t> draft = ProposeFromPrompt(history, params);
//   ... run the model on the last token and the draft: it chooses choices[i] behind draft[0..i) ...
//   const size_t accepted = CountAccepted(draft, choices);
//   ... append choices[0..accepted]: what was accepted and one token more ...
//
// Every appended token is the model's own choice, so that the output is what it is without speculation; with
// a sampler too, as long as it draws choices in order and only up to the first that differs.
//
// Source: Saxena 2023, prompt lookup decoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lamina {

struct PromptLookupParams {
  int32_t max_ngram = 3;  // the ending that is looked for has at most this many tokens
  int32_t min_ngram = 1;  // and at least this many
  int32_t max_draft_tokens = 8;
};

// The tokens that followed the latest earlier occurrence of the longest ending that occurs earlier; a part of
// `history`, empty where there is none.
std::span<const int32_t> ProposeFromPrompt(std::span<const int32_t> history,
                                           const PromptLookupParams& params);

// How many tokens of the draft the model chose itself, from the first on.
size_t CountAccepted(std::span<const int32_t> draft, std::span<const int32_t> choices);

}  // namespace lamina
