#include "generate/generator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace lamina {
namespace {

// Longer drafts are not run at once: kernels give a few tokens of a sequence the very logits that each would
// get alone, many tokens not.
constexpr size_t kMostDraftTokens = 15;

// Logits as the sampler may see them: without stop tokens while the text is too short.
class MinLength {
 public:
  explicit MinLength(const GenerationRequest& request) : request_(request) {}

  std::span<const float> Apply(std::span<const float> logits, size_t length_tokens) {
    if (static_cast<int64_t>(length_tokens) >= request_.min_length_tokens) return logits;
    allowed_.assign(logits.begin(), logits.end());
    for (const int32_t id : request_.stop_ids) {
      if (id < 0 || static_cast<size_t>(id) >= allowed_.size()) continue;
      allowed_[static_cast<size_t>(id)] = -std::numeric_limits<float>::infinity();
    }
    return allowed_;
  }

 private:
  const GenerationRequest& request_;
  std::vector<float> allowed_;
};

// Whether the largest logit is so much larger than all others that rounding cannot make another the largest.
// Kernels sum in another order where a run has several tokens.
bool IsCertain(std::span<const float> logits) {
  constexpr float kShare = 1e-3F;  // of the largest magnitude
  float largest = -std::numeric_limits<float>::infinity();
  float second = largest;
  float magnitude = 0;
  for (const float logit : logits) {
    magnitude = std::max(magnitude, std::fabs(logit));
    second = std::max(second, std::min(largest, logit));
    largest = std::max(largest, logit);
  }
  return largest - second > kShare * magnitude;
}

}  // namespace

Result<Generator> Generator::Create(Engine& engine, Tokenizer tokenizer) {
  LAMINA_ASSIGN_OR_RETURN(const SequenceId sequence, engine.AddSequence());
  return Generator(engine, std::move(tokenizer), sequence);
}

Generator::Generator(Generator&& other) noexcept
    : engine_(std::exchange(other.engine_, nullptr)),
      tokenizer_(std::move(other.tokenizer_)),
      sequence_(other.sequence_),
      cached_(std::move(other.cached_)) {}

Generator::~Generator() {
  if (engine_) engine_->RemoveSequence(sequence_);
}

Status Generator::Clear() { return CutBack(0); }

Status Generator::CutBack(size_t tokens) {
  Status rewound = engine_->Rewind(sequence_, static_cast<int64_t>(tokens));
  if (rewound.code() == StatusCode::kUnsupported) {
    tokens = 0;
    rewound = engine_->Rewind(sequence_, 0);
  }
  LAMINA_RETURN_IF_ERROR(rewound);
  cached_.resize(tokens);
  return Status();
}

Result<std::span<const int32_t>> Generator::Reuse(std::span<const int32_t> prompt) {
  // The last token of the prompt is always run: its logits choose the next one.
  size_t shared = 0;
  while (shared < cached_.size() && shared + 1 < prompt.size() && cached_[shared] == prompt[shared]) ++shared;
  LAMINA_RETURN_IF_ERROR(CutBack(shared));
  return prompt.subspan(cached_.size());
}

Result<Generator::Bound> Generator::BoundOf(const GenerationRequest& request) const {
  const auto prompt_tokens = static_cast<int64_t>(request.prompt.size());
  // The last token of an answer is not run, so that it needs no place in the context.
  Bound bound{std::max<int64_t>(engine_->context_length_tokens() + 1 - prompt_tokens, 1),
              StopReason::kContextFull};
  const auto limit = [&](int64_t max_tokens) {
    if (max_tokens <= bound.max_tokens) bound = {max_tokens, StopReason::kMaxTokens};
  };
  if (request.max_tokens > 0) limit(request.max_tokens);
  if (request.max_length_tokens > 0) {
    if (prompt_tokens >= request.max_length_tokens) {
      return InvalidArgumentError("the prompt has {} tokens, prompt and answer together may have {}",
                                  prompt_tokens, request.max_length_tokens);
    }
    limit(request.max_length_tokens - prompt_tokens);
  }
  return bound;
}

Status Generator::CheckPromptLookup(const PromptLookupParams& params) const {
  if (params.max_draft_tokens <= 0) return Status();
  if (params.max_draft_tokens >= engine_->max_row_logits()) {
    return InvalidArgumentError(
        "prompt lookup: a draft of {} tokens needs logits for {}, the engine gives {}",
        params.max_draft_tokens, params.max_draft_tokens + 1, engine_->max_row_logits());
  }
  if (!engine_->can_rewind()) {
    return UnsupportedError(
        "prompt lookup takes back tokens that were not accepted; this model carries state that cannot be cut "
        "back");
  }
  return Status();
}

Result<Generation> Generator::Generate(const GenerationRequest& request) {
  if (request.prompt.empty()) return InvalidArgumentError("the prompt has no tokens");
  LAMINA_ASSIGN_OR_RETURN(const Bound bound, BoundOf(request));
  LAMINA_RETURN_IF_ERROR(CheckPromptLookup(request.prompt_lookup));
  Generation answer;
  answer.prompt_tokens = static_cast<int64_t>(request.prompt.size());
  const int64_t start_ns = SystemClock().NowNs();
  const bool searches = request.beams && request.beams->num_beams > 1;
  LAMINA_RETURN_IF_ERROR(searches ? SearchWithBeams(request, bound, answer) : Sample(request, bound, answer));
  const int64_t total_ns = SystemClock().NowNs() - start_ns;
  if (answer.tokens.empty()) answer.prompt_ns = total_ns;
  answer.generation_ns = total_ns - answer.prompt_ns;
  return answer;
}

Status Generator::Sample(const GenerationRequest& request, const Bound& bound, Generation& answer) {
  const auto max_history = static_cast<size_t>(engine_->context_length_tokens()) + 1;
  LAMINA_ASSIGN_OR_RETURN(
      Sampler sampler,
      Sampler::Create(request.sampling, static_cast<int32_t>(engine_->vocab_size()), max_history));
  AnswerStream stream(request, tokenizer_, bound.max_tokens, bound.at_max, answer);
  MinLength min_length(request);
  std::vector<int32_t> history = request.prompt;
  // Tokens to run: what the cache has not got, and behind it the draft of what may come next.
  LAMINA_ASSIGN_OR_RETURN(const std::span<const int32_t> not_cached, Reuse(request.prompt));
  std::vector<int32_t> pending(not_cached.begin(), not_cached.end());
  size_t draft_tokens = 0;
  const bool greedy = request.sampling.temperature == 0 && request.sampling.dynamic_temperature == 0;
  answer.prompt_tokens_run = static_cast<int64_t>(pending.size());

  const int64_t start_ns = SystemClock().NowNs();
  for (std::optional<StopReason> ended; !ended;) {
    const SequenceStep row{sequence_, pending, static_cast<int>(draft_tokens) + 1};
    const Status stepped = engine_->Step({&row, 1}, request.run);
    if (stepped.code() == StatusCode::kCancelled) {
      LAMINA_RETURN_IF_ERROR(CutBack(cached_.size()));
      answer.reason = StopReason::kCancelled;
      break;
    }
    LAMINA_RETURN_IF_ERROR(stepped);
    cached_.insert(cached_.end(), pending.begin(), pending.end());
    if (answer.tokens.empty()) answer.prompt_ns = SystemClock().NowNs() - start_ns;

    // The draft is right up to the first token that the model does not choose itself.
    const std::span<const int32_t> draft = std::span(pending).last(draft_tokens);
    size_t accepted = 0;
    bool certain = true;
    for (size_t i = 0; !ended; ++i) {
      const std::span<const float> logits = min_length.Apply(engine_->logits(0, i), history.size());
      certain = !greedy || draft_tokens == 0 || IsCertain(logits);
      if (!certain) break;
      LAMINA_ASSIGN_OR_RETURN(const SampledToken sampled, sampler.Sample(logits, history));
      const int32_t token = sampled.token;
      history.push_back(token);
      if (request.sampling.top_log_probabilities >= 0) {
        answer.log_probabilities.push_back(
            {sampled.log_probability, {sampled.top.begin(), sampled.top.end()}});
      }
      LAMINA_ASSIGN_OR_RETURN(ended, stream.Push(token));
      if (i == draft.size() || token != draft[i]) break;
      ++accepted;
    }
    answer.drafted_tokens += static_cast<int64_t>(draft_tokens);
    answer.accepted_tokens += static_cast<int64_t>(accepted);
    // The cache is to hold all but the last token of the history. That one is run again, alone, where its
    // choice was not certain.
    if (cached_.size() >= history.size()) LAMINA_RETURN_IF_ERROR(CutBack(history.size() - 1));
    if (!ended && request.run.cancel && request.run.cancel->cancelled()) ended = StopReason::kCancelled;
    if (ended) {
      answer.reason = *ended;
      break;
    }
    pending.assign(1, history.back());
    draft_tokens = 0;
    if (request.prompt_lookup.max_draft_tokens > 0 && certain) {
      const std::span<const int32_t> proposed = ProposeFromPrompt(history, request.prompt_lookup);
      // Not more than may be said behind the token that is run anyway.
      draft_tokens =
          std::min({proposed.size(), kMostDraftTokens, static_cast<size_t>(stream.tokens_left() - 1)});
      pending.insert(pending.end(), proposed.begin(),
                     proposed.begin() + static_cast<ptrdiff_t>(draft_tokens));
    }
  }
  return stream.Finish();
}

}  // namespace lamina
