#include "generate/answer_stream.h"

#include <algorithm>

namespace lamina {

std::string_view StopReasonName(StopReason reason) {
  switch (reason) {
    case StopReason::kStopToken:
      return "stop_token";
    case StopReason::kStopString:
      return "stop_string";
    case StopReason::kMaxTokens:
      return "max_tokens";
    case StopReason::kContextFull:
      return "context_full";
    case StopReason::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

AnswerStream::AnswerStream(const GenerationRequest& request, const Tokenizer& tokenizer, int64_t max_tokens,
                           StopReason at_max, Generation& answer)
    : request_(request),
      max_tokens_(max_tokens),
      at_max_(at_max),
      answer_(answer),
      stream_(tokenizer, {.skip_special_tokens = true}),
      stops_(request.stop_strings) {}

Status AnswerStream::Emit(const std::string& text) {
  if (text.empty()) return Status();
  answer_.text += text;
  return request_.on_text ? request_.on_text(text) : Status();
}

Result<std::optional<StopReason>> AnswerStream::Push(int32_t token) {
  using Ended = std::optional<StopReason>;
  answer_.tokens.push_back(token);
  if (std::find(request_.stop_ids.begin(), request_.stop_ids.end(), token) != request_.stop_ids.end()) {
    return Ended(StopReason::kStopToken);
  }
  LAMINA_ASSIGN_OR_RETURN(const std::string piece, stream_.Push(token));
  LAMINA_RETURN_IF_ERROR(Emit(stops_.Push(piece)));
  if (stops_.matched()) return Ended(StopReason::kStopString);
  if (tokens_left() <= 0) return Ended(at_max_);
  return Ended();
}

Status AnswerStream::Finish() {
  LAMINA_ASSIGN_OR_RETURN(const std::string rest, stream_.Finish());
  LAMINA_RETURN_IF_ERROR(Emit(stops_.Push(rest)));
  return Emit(stops_.Finish());
}

}  // namespace lamina
