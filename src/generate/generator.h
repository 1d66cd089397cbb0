// One answer of a model: prompt in, text out as it comes.
//
//   LAMINA_ASSIGN_OR_RETURN(Generator generator, Generator::Create(*engine, tokenizer));
//   LAMINA_ASSIGN_OR_RETURN(const Generation answer, generator.Generate(request));
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "generate/answer_stream.h"
#include "generate/engine.h"
#include "generate/generation.h"
#include "lamina/status.h"
#include "text/tokenizer.h"

namespace lamina {

// Owns one sequence of the engine, which must outlive it. Not thread-safe.
class Generator {
 public:
  // RESOURCE_EXHAUSTED where the engine has no sequence left.
  static Result<Generator> Create(Engine& engine, Tokenizer tokenizer);
  Generator(Generator&& other) noexcept;
  Generator& operator=(Generator&&) = delete;
  ~Generator();

  // INVALID_ARGUMENT for an empty prompt, one of max_length_tokens or more, or parameters out of range;
  // RESOURCE_EXHAUSTED where the prompt alone does not fit the context, or the engine has fewer sequences
  // than beams. Prompt lookup needs an engine with max_row_logits > max_draft_tokens (INVALID_ARGUMENT) and a
  // model that can forget tokens (UNSUPPORTED).
  Result<Generation> Generate(const GenerationRequest& request);
  // Forgets the conversation.
  Status Clear();

 private:
  // How long an answer may become, and what its end is called then.
  struct Bound {
    int64_t max_tokens = 0;
    StopReason at_max = StopReason::kMaxTokens;
  };

  Generator(Engine& engine, Tokenizer tokenizer, SequenceId sequence)
      : engine_(&engine), tokenizer_(std::move(tokenizer)), sequence_(sequence) {}
  Result<Bound> BoundOf(const GenerationRequest& request) const;
  Status CheckPromptLookup(const PromptLookupParams& params) const;
  // Keeps the first `tokens` of the cache, or none where the model cannot be cut back to them.
  Status CutBack(size_t tokens);
  // Cuts the cache back to what it shares with the prompt; returns the tokens that are left to run.
  Result<std::span<const int32_t>> Reuse(std::span<const int32_t> prompt);
  // Both fill all of the answer but prompt_tokens and the durations after the prompt's.
  Status Sample(const GenerationRequest& request, const Bound& bound, Generation& answer);
  Status SearchWithBeams(const GenerationRequest& request, const Bound& bound, Generation& answer);
  // Tokens, text and reason of a sequence that a search found; `aloud`: through the request's on_text.
  Result<Generation> Write(const BeamHypothesis& hypothesis, const GenerationRequest& request,
                           const Bound& bound, bool aloud) const;

  Engine* engine_;
  Tokenizer tokenizer_;
  SequenceId sequence_;
  std::vector<int32_t> cached_;  // tokens in the engine's cache
};

}  // namespace lamina
