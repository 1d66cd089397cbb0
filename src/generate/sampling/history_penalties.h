// Samplers that look at what was said: penalties for tokens that occurred, no repeated n-gram, DRY ("don't
// repeat yourself").
//
// Sources: repetition penalty: Keskar et al. 2019 (CTRL); presence and frequency: OpenAI's API; DRY:
// p-e-w's description (text-generation-webui, pull request 5677).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "generate/sampling/candidates.h"
#include "generate/sampling/sampling_params.h"

namespace lamina {

class HistoryPenalties {
 public:
  // Buffers are sized for `vocab_size` tokens and a history of `max_history`.
  HistoryPenalties(const SamplingParams& params, int32_t vocab_size, size_t max_history);

  // Repetition, presence and frequency penalties on the tokens of the last penalty_last_n.
  void ApplyPenalties(std::span<const int32_t> history, Candidates* candidates);
  // Bans each token that would complete an n-gram that the history has already.
  void BanRepeatedNgrams(std::span<const int32_t> history, Candidates* candidates);
  // Penalises each token that would lengthen a repetition, by its length.
  void ApplyDry(std::span<const int32_t> history, Candidates* candidates);

 private:
  // Calls change(logit, mark) for each candidate that is marked, then clears the marks.
  template <typename Change>
  void ChangeMarked(Candidates* candidates, Change change);
  void Mark(int32_t token, uint32_t value);
  bool InVocabulary(int32_t token) const { return token >= 0 && static_cast<size_t>(token) < marks_.size(); }
  // Tokens behind the last sequence breaker, which a repetition may reach back over.
  size_t TokensSinceBreaker(std::span<const int32_t> window) const;

  const SamplingParams& params_;
  std::vector<uint32_t> marks_;  // by token; 0 for unmarked
  std::vector<int32_t> marked_;
  std::vector<bool> breaks_;                             // by token: whether it alone is a sequence breaker
  std::vector<std::span<const int32_t>> long_breakers_;  // those of several tokens
  std::vector<uint32_t> matches_;  // DRY: length of the match that ends at each position
};

}  // namespace lamina
