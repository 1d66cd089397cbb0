// Beam search: keeps the num_beams most likely continuations of a prompt instead of one.
//
//   LAMINA_ASSIGN_OR_RETURN(BeamSearch search, BeamSearch::Create(params, vocab_size, prompt));
//   while (!search.done()) {
//     ... run the model on the last token of each beam; reorder its caches by beams()[i].parent before ...
//     LAMINA_RETURN_IF_ERROR(search.Step(logits));    // [num_beams, vocab_size]
//   }
//   for (const BeamHypothesis& hypothesis : search.Finish()) ...
//
// Follows the search of ONNX Runtime GenAI and Hugging Face transformers: each step takes the 2 * num_beams
// best continuations; those that end the text become hypotheses (from the best num_beams only), the others
// the next beams. A hypothesis scores its summed log-probability divided by length^length_penalty, where the
// length counts prompt and ending.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lamina/status.h"

namespace lamina {

struct BeamSearchParams {
  int32_t num_beams = 4;
  int32_t num_return_sequences = 1;  // at most num_beams
  float length_penalty = 1;
  bool early_stopping = true;  // done with num_beams hypotheses, even if a beam could still become better
  int32_t max_length = 0;      // tokens, prompt included; 0: no bound of its own
  int32_t min_length = 0;      // no end of text before this many tokens, prompt included
  float repetition_penalty = 1;
  int32_t no_repeat_ngram_size = 0;
  std::vector<int32_t> end_tokens;
};

struct Beam {
  int32_t parent = 0;  // the beam of the step before that this one continues
  int32_t token = 0;   // its last token
  float score = 0;     // sum of log-probabilities
};

struct BeamHypothesis {
  std::vector<int32_t> tokens;  // prompt included; without the token that ended it
  float score = 0;
  int32_t end_token = -1;  // the token that ended it; -1 where nothing did
};

// Not thread-safe.
class BeamSearch {
 public:
  // INVALID_ARGUMENT where a parameter is out of range or the prompt is empty.
  static Result<BeamSearch> Create(const BeamSearchParams& params, int32_t vocab_size,
                                   std::span<const int32_t> prompt);
  BeamSearch(BeamSearch&&) noexcept;
  BeamSearch& operator=(BeamSearch&&) noexcept;
  ~BeamSearch();

  // One step for all beams. `logits` [num_beams, vocab_size]; before the first step all rows are those behind
  // the prompt. INVALID_ARGUMENT where the size differs, the search is done, or too few continuations are
  // possible.
  Status Step(std::span<const float> logits);

  // What to run next. Before the first step: num_beams times the end of the prompt.
  std::span<const Beam> beams() const;
  // The tokens of a beam, prompt included.
  std::span<const int32_t> sequence(size_t beam) const;
  bool done() const;

  // The num_return_sequences best hypotheses, best first; beams that have not ended count as they are.
  std::vector<BeamHypothesis> Finish() const;

 private:
  struct State;
  explicit BeamSearch(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace lamina
