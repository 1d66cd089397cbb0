// What is asked of a model and what it answered.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "generate/sampling/beam_search.h"
#include "generate/sampling/prompt_lookup.h"
#include "generate/sampling/sampler.h"
#include "lamina/session.h"
#include "lamina/status.h"

namespace lamina {

struct GenerationRequest {
  // All tokens of the conversation so far. Tokens that the generator's sequence has already are not run
  // again.
  std::vector<int32_t> prompt;
  // Of the answer; 0: until the context is full.
  int64_t max_tokens = 0;
  // Of prompt and answer together; 0: until the context is full.
  int64_t max_length_tokens = 0;
  // No stop token before prompt and answer together have this many.
  int64_t min_length_tokens = 0;
  SamplingParams sampling;
  // Searches with beams instead of sampling. Lengths and end tokens come from this request; a stop string
  // cuts the text that was found.
  std::optional<BeamSearchParams> beams;
  // Drafts of max_draft_tokens > 0 are checked several tokens a step (15 at most); a greedy answer stays what
  // it is without.
  PromptLookupParams prompt_lookup{.max_draft_tokens = 0};
  std::vector<std::string> stop_strings;
  std::vector<int32_t> stop_ids;  // EOS and end-of-turn tokens
  // Called with every piece of text, complete UTF-8 characters only; an error ends the generation with it.
  // A search with beams knows its text only at the end.
  std::function<Status(std::string_view text)> on_text;
  RunOptions run;  // its cancel token stops the answer, which is then returned as far as it came
};

enum class StopReason { kStopToken, kStopString, kMaxTokens, kContextFull, kCancelled };
// "stop_token", "stop_string", "max_tokens", "context_full", "cancelled".
std::string_view StopReasonName(StopReason reason);

// Natural logarithms, as SamplingParams::top_log_probabilities asks for them.
struct TokenReport {
  float log_probability = 0;
  std::vector<TokenLogProbability> top;  // most likely first
};

// One of the texts that a search with beams returns.
struct GeneratedSequence {
  std::vector<int32_t> tokens;  // of the answer, the stop token included
  std::string text;             // without stop token and stop string
  float score = 0;              // BeamHypothesis::score
};

struct Generation {
  std::vector<int32_t> tokens;                 // the stop token included
  std::string text;                            // without stop token and stop string
  std::vector<TokenReport> log_probabilities;  // by token; empty where the request asks for none
  std::vector<GeneratedSequence> sequences;    // of a search with beams, best first; the first is `text`
  StopReason reason = StopReason::kStopToken;
  int64_t prompt_tokens = 0;      // of the request
  int64_t prompt_tokens_run = 0;  // of those, not in the cache before
  int64_t prompt_ns = 0;          // until the logits of the first token
  int64_t generation_ns = 0;      // from there on
  int64_t drafted_tokens = 0;     // proposed by prompt lookup
  int64_t accepted_tokens = 0;    // of those, what the model chose itself
};

}  // namespace lamina
