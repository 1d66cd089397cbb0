// One answer of a model: prompt in, text out as it comes.
//
//   Generator generator(*engine, tokenizer);
//   LAMINA_ASSIGN_OR_RETURN(const Generation answer, generator.Generate(request));
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "generate/engine.h"
#include "generate/sampling/sampler.h"
#include "lamina/status.h"
#include "text/tokenizer.h"

namespace lamina {

struct GenerationRequest {
  // All tokens of the conversation so far. Tokens that the generator's sequence has already are not run
  // again.
  std::vector<int32_t> prompt;
  // 0: until the context is full.
  int64_t max_tokens = 0;
  SamplingParams sampling;
  std::vector<std::string> stop_strings;
  std::vector<int32_t> stop_ids;  // EOS and end-of-turn tokens
  // Called with every piece of text, complete UTF-8 characters only; an error ends the generation with it.
  std::function<Status(std::string_view text)> on_text;
  RunOptions run;  // its cancel token stops the answer, which is then returned as far as it came
};

enum class StopReason { kStopToken, kStopString, kMaxTokens, kContextFull, kCancelled };
// "stop_token", "stop_string", "max_tokens", "context_full", "cancelled".
std::string_view StopReasonName(StopReason reason);

struct Generation {
  std::vector<int32_t> tokens;  // the stop token included
  std::string text;             // without stop token and stop string
  StopReason reason = StopReason::kStopToken;
  int64_t prompt_tokens = 0;      // of the request
  int64_t prompt_tokens_run = 0;  // of those, not in the cache before
  int64_t prompt_ns = 0;          // until the logits of the first token
  int64_t generation_ns = 0;      // from there on
};

// Owns one sequence of the engine, which must outlive it. Not thread-safe.
class Generator {
 public:
  // RESOURCE_EXHAUSTED where the engine has no sequence left.
  static Result<Generator> Create(Engine& engine, Tokenizer tokenizer);
  Generator(Generator&& other) noexcept;
  Generator& operator=(Generator&&) = delete;
  ~Generator();

  // INVALID_ARGUMENT for an empty prompt; RESOURCE_EXHAUSTED where the prompt alone does not fit the context.
  Result<Generation> Generate(const GenerationRequest& request);
  // Forgets the conversation.
  Status Clear();

 private:
  Generator(Engine& engine, Tokenizer tokenizer, SequenceId sequence)
      : engine_(&engine), tokenizer_(std::move(tokenizer)), sequence_(sequence) {}
  // Keeps the first `tokens` of the cache, or none where the model cannot be cut back to them.
  Status CutBack(size_t tokens);
  // Cuts the cache back to what it shares with the prompt; returns the tokens that are left to run.
  Result<std::span<const int32_t>> Reuse(std::span<const int32_t> prompt);

  Engine* engine_;
  Tokenizer tokenizer_;
  SequenceId sequence_;
  std::vector<int32_t> cached_;  // tokens in the engine's cache
};

}  // namespace lamina
