// Chooses the next token from the model's logits.
//
//   LAMINA_ASSIGN_OR_RETURN(Sampler sampler, Sampler::Create(params, vocab_size));
//   LAMINA_ASSIGN_OR_RETURN(SampledToken next, sampler.Sample(logits, history));
//
// One sampler serves one sequence: it owns the random state and mirostat's. All buffers are sized at
// creation, Sample allocates nothing. Results depend on parameters, logits and history only: neither on
// threads nor on the platform's mathematics library. Not thread-safe; different samplers are independent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "generate/sampling/sampling_params.h"
#include "lamina/status.h"

namespace lamina {

struct TokenLogProbability {
  int32_t token = 0;
  float log_probability = 0;  // natural logarithm
};

struct SampledToken {
  int32_t token = 0;
  // Natural logarithm of the token's probability: of the model's own distribution (softmax of the logits as
  // given), or of the one that was drawn from with `log_probabilities_after_chain`. NaN where the parameters
  // ask for no log-probabilities.
  float log_probability = 0;
  // The most likely tokens of the same distribution, most likely first. Valid until the next call.
  std::span<const TokenLogProbability> top;
};

class Sampler {
 public:
  // INVALID_ARGUMENT where a parameter or `vocab_size` is out of range. `max_history`: the longest history
  // that Sample will see; DRY's buffer grows, and so allocates, beyond it.
  static Result<Sampler> Create(const SamplingParams& params, int32_t vocab_size, size_t max_history = 4096);
  Sampler(Sampler&&) noexcept;
  Sampler& operator=(Sampler&&) noexcept;
  ~Sampler();

  // `logits` [vocab_size]; `history`: the prompt's and the generated tokens, oldest first. Ids outside the
  // vocabulary in the history are ignored. NaN counts as -infinity; INVALID_ARGUMENT where the sizes differ
  // or no token is left with a finite logit or +infinity.
  Result<SampledToken> Sample(std::span<const float> logits, std::span<const int32_t> history);

  // Starts over as created: random state and mirostat's.
  void Reset();

  const SamplingParams& params() const;
  int32_t vocab_size() const;

 private:
  struct State;
  explicit Sampler(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace lamina
