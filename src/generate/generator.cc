#include "generate/generator.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "generate/stop_matcher.h"

namespace lamina {
namespace {

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

bool Contains(const std::vector<int32_t>& ids, int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

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

Result<Generation> Generator::Generate(const GenerationRequest& request) {
  if (request.prompt.empty()) return InvalidArgumentError("the prompt has no tokens");
  LAMINA_ASSIGN_OR_RETURN(Sampler sampler,
                          Sampler::Create(request.sampling, static_cast<int32_t>(engine_->vocab_size())));
  LAMINA_ASSIGN_OR_RETURN(std::span<const int32_t> pending, Reuse(request.prompt));

  Generation answer;
  answer.prompt_tokens = static_cast<int64_t>(request.prompt.size());
  answer.prompt_tokens_run = static_cast<int64_t>(pending.size());
  TokenStream stream(tokenizer_, {.skip_special_tokens = true});
  StopMatcher stops(request.stop_strings);
  const auto emit = [&](const std::string& text) -> Status {
    if (text.empty()) return Status();
    answer.text += text;
    return request.on_text ? request.on_text(text) : Status();
  };
  const auto cancelled = [&] { return request.run.cancel && request.run.cancel->cancelled(); };

  std::vector<int32_t> history = request.prompt;
  int32_t next = 0;
  const int64_t start_ns = NowNs();
  for (;;) {
    const SequenceStep row{sequence_, pending, /*wants_logits=*/true};
    const Status stepped = engine_->Step({&row, 1}, request.run);
    if (stepped.code() == StatusCode::kCancelled) {
      LAMINA_RETURN_IF_ERROR(CutBack(cached_.size()));
      answer.reason = StopReason::kCancelled;
      break;
    }
    LAMINA_RETURN_IF_ERROR(stepped);
    cached_.insert(cached_.end(), pending.begin(), pending.end());
    if (answer.tokens.empty()) answer.prompt_ns = NowNs() - start_ns;

    LAMINA_ASSIGN_OR_RETURN(const SampledToken sampled, sampler.Sample(engine_->logits(0), history));
    next = sampled.token;
    answer.tokens.push_back(next);
    history.push_back(next);
    if (Contains(request.stop_ids, next)) {
      answer.reason = StopReason::kStopToken;
      break;
    }
    LAMINA_ASSIGN_OR_RETURN(const std::string piece, stream.Push(next));
    LAMINA_RETURN_IF_ERROR(emit(stops.Push(piece)));
    if (stops.matched()) {
      answer.reason = StopReason::kStopString;
      break;
    }
    if (request.max_tokens > 0 && static_cast<int64_t>(answer.tokens.size()) >= request.max_tokens) {
      answer.reason = StopReason::kMaxTokens;
      break;
    }
    if (engine_->length_tokens(sequence_) >= engine_->context_length_tokens()) {
      answer.reason = StopReason::kContextFull;
      break;
    }
    if (cancelled()) {
      answer.reason = StopReason::kCancelled;
      break;
    }
    pending = {&next, 1};
  }
  LAMINA_ASSIGN_OR_RETURN(const std::string rest, stream.Finish());
  LAMINA_RETURN_IF_ERROR(emit(stops.Push(rest)));
  LAMINA_RETURN_IF_ERROR(emit(stops.Finish()));
  const int64_t total_ns = NowNs() - start_ns;
  if (answer.tokens.empty()) answer.prompt_ns = total_ns;
  answer.generation_ns = total_ns - answer.prompt_ns;
  return answer;
}

}  // namespace lamina
