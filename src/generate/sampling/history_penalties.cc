#include "generate/sampling/history_penalties.h"

#include <algorithm>
#include <limits>

#include "generate/sampling/portable_math.h"

namespace lamina {

namespace {

// The last `last_n` tokens; all where it is negative.
std::span<const int32_t> Window(std::span<const int32_t> history, int32_t last_n) {
  if (last_n < 0 || static_cast<size_t>(last_n) >= history.size()) return history;
  return history.last(static_cast<size_t>(last_n));
}

}  // namespace

HistoryPenalties::HistoryPenalties(const SamplingParams& params, int32_t vocab_size, size_t max_history)
    : params_(params), marks_(static_cast<size_t>(vocab_size)) {
  marked_.reserve(static_cast<size_t>(vocab_size));
  if (params.dry_multiplier <= 0) return;
  matches_.resize(max_history);
  breaks_.resize(static_cast<size_t>(vocab_size));
  for (const std::vector<int32_t>& breaker : params.dry_sequence_breakers) {
    if (breaker.size() == 1 && InVocabulary(breaker[0])) breaks_[static_cast<size_t>(breaker[0])] = true;
    if (breaker.size() > 1) long_breakers_.emplace_back(breaker);
  }
}

void HistoryPenalties::Mark(int32_t token, uint32_t value) {
  uint32_t& mark = marks_[static_cast<size_t>(token)];
  if (mark == 0) marked_.push_back(token);
  mark = value;
}

template <typename Change>
void HistoryPenalties::ChangeMarked(Candidates* candidates, Change change_logit) {
  const auto change = [&](float* logit, uint32_t mark) {
    change_logit(logit, mark);
    // An infinite logit less an infinite penalty.
    if (*logit != *logit) *logit = -std::numeric_limits<float>::infinity();
  };
  const auto items = candidates->items();
  if (candidates->all_by_id()) {
    for (const int32_t token : marked_) {
      change(&items[static_cast<size_t>(token)].logit, marks_[static_cast<size_t>(token)]);
    }
  } else {
    for (Candidate& item : items) {
      const uint32_t mark = marks_[static_cast<size_t>(item.token)];
      if (mark != 0) change(&item.logit, mark);
    }
  }
  candidates->LogitsChanged();
  for (const int32_t token : marked_) marks_[static_cast<size_t>(token)] = 0;
  marked_.clear();
}

void HistoryPenalties::ApplyPenalties(std::span<const int32_t> history, Candidates* candidates) {
  const float repetition = params_.repetition_penalty;
  const float presence = params_.presence_penalty;
  const float frequency = params_.frequency_penalty;
  if (repetition == 1 && presence == 0 && frequency == 0) return;
  for (const int32_t token : Window(history, params_.penalty_last_n)) {
    if (InVocabulary(token)) Mark(token, marks_[static_cast<size_t>(token)] + 1);
  }
  ChangeMarked(candidates, [&](float* logit, uint32_t count) {
    *logit = *logit > 0 ? *logit / repetition : *logit * repetition;
    *logit -= static_cast<float>(count) * frequency + presence;
  });
}

void HistoryPenalties::BanRepeatedNgrams(std::span<const int32_t> history, Candidates* candidates) {
  const auto size = static_cast<size_t>(std::max(params_.no_repeat_ngram_size, 0));
  if (size == 0 || history.size() < size) return;
  const std::span<const int32_t> prefix = history.last(size - 1);
  for (size_t i = 0; i + size <= history.size(); ++i) {
    const int32_t next = history[i + size - 1];
    if (InVocabulary(next) &&
        std::equal(prefix.begin(), prefix.end(), history.begin() + static_cast<ptrdiff_t>(i))) {
      Mark(next, 1);
    }
  }
  ChangeMarked(candidates, [](float* logit, uint32_t) { *logit = -std::numeric_limits<float>::infinity(); });
}

size_t HistoryPenalties::TokensSinceBreaker(std::span<const int32_t> window) const {
  size_t since = 0;
  while (since < window.size()) {
    const int32_t token = window[window.size() - 1 - since];
    if (InVocabulary(token) && breaks_[static_cast<size_t>(token)]) break;
    ++since;
  }
  for (const std::span<const int32_t> breaker : long_breakers_) {
    if (breaker.size() > window.size()) continue;
    // The latest place where the breaker stands.
    for (size_t end = window.size(); end >= breaker.size() && window.size() - end < since; --end) {
      if (std::equal(breaker.begin(), breaker.end(),
                     window.begin() + static_cast<ptrdiff_t>(end - breaker.size()))) {
        since = window.size() - end;
        break;
      }
    }
  }
  return since;
}

void HistoryPenalties::ApplyDry(std::span<const int32_t> history, Candidates* candidates) {
  if (params_.dry_multiplier <= 0) return;
  const std::span<const int32_t> window = Window(history, params_.dry_penalty_last_n);
  const size_t longest = TokensSinceBreaker(window);
  const auto allowed = static_cast<size_t>(params_.dry_allowed_length);
  if (window.size() < 2 || longest < allowed) return;

  // matches_[d]: how many tokens before the last d tokens equal those at the end of the window. It is the Z
  // function of the reversed window, which takes linear time.
  if (matches_.size() < window.size()) matches_.resize(window.size());
  const auto reversed = [&](size_t i) { return window[window.size() - 1 - i]; };
  size_t left = 0;
  size_t right = 0;
  for (size_t d = 1; d < window.size(); ++d) {
    size_t length = d < right ? std::min<size_t>(right - d, matches_[d - left]) : 0;
    while (d + length < window.size() && reversed(length) == reversed(d + length)) ++length;
    if (d + length > right) {
      left = d;
      right = d + length;
    }
    matches_[d] = static_cast<uint32_t>(length);
    const size_t match = std::min(length, longest);
    const int32_t next = reversed(d - 1);
    if (match >= allowed && match > 0 && InVocabulary(next)) {
      Mark(next, std::max(marks_[static_cast<size_t>(next)], static_cast<uint32_t>(match)));
    }
  }
  ChangeMarked(candidates, [&](float* logit, uint32_t match) {
    const auto beyond = static_cast<int64_t>(match) - params_.dry_allowed_length;
    *logit -= static_cast<float>(params_.dry_multiplier * portable::Power(params_.dry_base, beyond));
  });
}

}  // namespace lamina
