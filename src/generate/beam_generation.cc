// The part of the generator that searches with beams.
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "generate/beam_sequences.h"
#include "generate/generator.h"

namespace lamina {
namespace {

int32_t Bounded(int64_t tokens) {
  return static_cast<int32_t>(std::clamp<int64_t>(tokens, 0, std::numeric_limits<int32_t>::max()));
}

BeamSearchParams ParamsOf(const GenerationRequest& request, int64_t max_tokens) {
  BeamSearchParams params = *request.beams;
  params.max_length = Bounded(static_cast<int64_t>(request.prompt.size()) + max_tokens);
  params.min_length = Bounded(request.min_length_tokens);
  params.end_tokens = request.stop_ids;
  return params;
}

}  // namespace

Result<Generation> Generator::Write(const BeamHypothesis& hypothesis, const GenerationRequest& request,
                                    const Bound& bound, bool aloud) const {
  Generation written;
  GenerationRequest writing;
  writing.stop_ids = request.stop_ids;
  writing.stop_strings = request.stop_strings;
  if (aloud) writing.on_text = request.on_text;
  AnswerStream stream(writing, tokenizer_, bound.max_tokens, bound.at_max, written);
  std::vector<int32_t> tokens(hypothesis.tokens.begin() + static_cast<ptrdiff_t>(request.prompt.size()),
                              hypothesis.tokens.end());
  if (hypothesis.end_token >= 0) tokens.push_back(hypothesis.end_token);
  std::optional<StopReason> ended;
  for (size_t i = 0; i < tokens.size() && !ended; ++i) {
    LAMINA_ASSIGN_OR_RETURN(ended, stream.Push(tokens[i]));
  }
  LAMINA_RETURN_IF_ERROR(stream.Finish());
  written.reason = ended.value_or(StopReason::kCancelled);
  return written;
}

Status Generator::SearchWithBeams(const GenerationRequest& request, const Bound& bound, Generation& answer) {
  if (request.sampling.top_log_probabilities >= 0 || request.prompt_lookup.max_draft_tokens > 0) {
    return InvalidArgumentError(
        "a search with beams has neither log-probabilities of tokens nor prompt lookup");
  }
  const int64_t start_ns = SystemClock().NowNs();
  const auto vocab_size = static_cast<int32_t>(engine_->vocab_size());
  const BeamSearchParams params = ParamsOf(request, bound.max_tokens);
  LAMINA_ASSIGN_OR_RETURN(BeamSearch search, BeamSearch::Create(params, vocab_size, request.prompt));
  LAMINA_ASSIGN_OR_RETURN(BeamSequences sequences,
                          BeamSequences::Create(*engine_, sequence_, params.num_beams));
  LAMINA_ASSIGN_OR_RETURN(const std::span<const int32_t> pending, Reuse(request.prompt));
  answer.prompt_tokens_run = static_cast<int64_t>(pending.size());
  const SequenceStep prompt{sequence_, pending, /*num_logits=*/1};
  Status stepped = engine_->Step({&prompt, 1}, request.run);
  const bool prompt_has_run = stepped.ok();
  if (prompt_has_run) {
    // All beams are the prompt.
    cached_ = request.prompt;
    answer.prompt_ns = SystemClock().NowNs() - start_ns;
    const std::span<const float> logits = engine_->logits(0);
    std::vector<float> repeated;
    for (int32_t beam = 0; beam < params.num_beams; ++beam) {
      repeated.insert(repeated.end(), logits.begin(), logits.end());
    }
    LAMINA_RETURN_IF_ERROR(search.Step(repeated));
  }
  while (stepped.ok() && !search.done()) {
    stepped = sequences.Advance(search.beams(), request.run);
    if (stepped.ok()) LAMINA_RETURN_IF_ERROR(search.Step(sequences.logits()));
  }
  if (stepped.code() != StatusCode::kCancelled) LAMINA_RETURN_IF_ERROR(stepped);
  // Whatever beam the generator's sequence holds, it begins with the prompt.
  LAMINA_RETURN_IF_ERROR(CutBack(cached_.size()));
  if (!prompt_has_run) {
    answer.reason = StopReason::kCancelled;
    return Status();
  }

  for (const BeamHypothesis& hypothesis : search.Finish()) {
    const bool best = answer.sequences.empty();
    LAMINA_ASSIGN_OR_RETURN(Generation written, Write(hypothesis, request, bound, best));
    if (best) {
      answer.tokens = written.tokens;
      answer.text = written.text;
      answer.reason = written.reason;
    }
    answer.sequences.push_back({std::move(written.tokens), std::move(written.text), hypothesis.score});
  }
  return Status();
}

}  // namespace lamina
