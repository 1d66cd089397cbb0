#include "generate/sampling/prompt_lookup.h"

#include <algorithm>

namespace lamina {

std::span<const int32_t> ProposeFromPrompt(std::span<const int32_t> history,
                                           const PromptLookupParams& params) {
  const auto longest = static_cast<size_t>(std::max(params.max_ngram, 0));
  const auto shortest = static_cast<size_t>(std::max(params.min_ngram, 1));
  const auto max_draft = static_cast<size_t>(std::max(params.max_draft_tokens, 0));
  size_t best_length = 0;
  size_t best_end = 0;
  // `end`: behind an earlier occurrence of the ending.
  for (size_t end = history.empty() ? 0 : history.size() - 1; end > 0 && best_length < longest; --end) {
    const size_t limit = std::min(longest, end);
    size_t length = 0;
    while (length < limit && history[end - 1 - length] == history[history.size() - 1 - length]) ++length;
    if (length > best_length) {
      best_length = length;
      best_end = end;
    }
  }
  if (best_length < shortest || best_length == 0) return {};
  return history.subspan(best_end, std::min(max_draft, history.size() - best_end));
}

size_t CountAccepted(std::span<const int32_t> draft, std::span<const int32_t> choices) {
  const size_t limit = std::min(draft.size(), choices.size());
  size_t accepted = 0;
  while (accepted < limit && draft[accepted] == choices[accepted]) ++accepted;
  return accepted;
}

}  // namespace lamina
