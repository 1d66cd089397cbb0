// Tokens of an answer on their way to text: decoding, stop tokens, stop strings and bounds.
#pragma once

#include <cstdint>
#include <optional>

#include "generate/generation.h"
#include "generate/stop_matcher.h"
#include "lamina/status.h"
#include "text/tokenizer.h"

namespace lamina {

// Fills tokens and text of a Generation. Request, tokenizer and answer must outlive it.
class AnswerStream {
 public:
  // `max_tokens`: of the answer, at least 1; when they are reached the reason is `at_max`.
  AnswerStream(const GenerationRequest& request, const Tokenizer& tokenizer, int64_t max_tokens,
               StopReason at_max, Generation& answer);

  // Appends a token and passes on the text that is certain. Returns why the answer ends with it, or nothing.
  Result<std::optional<StopReason>> Push(int32_t token);
  // Passes on the text that was held back; nothing may follow.
  Status Finish();
  int64_t tokens_left() const { return max_tokens_ - static_cast<int64_t>(answer_.tokens.size()); }

 private:
  Status Emit(const std::string& text);

  const GenerationRequest& request_;
  int64_t max_tokens_;
  StopReason at_max_;
  Generation& answer_;
  TokenStream stream_;
  StopMatcher stops_;
};

}  // namespace lamina
