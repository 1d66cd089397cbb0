// Every knob of sampling. The defaults sample from the model's own distribution.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/status.h"

namespace lamina {

// A stage of the chain between the model's logits and the draw.
enum class SamplerStage {
  kLogitBias,
  kPenalties,
  kNoRepeatNgram,
  kDry,
  kTopNSigma,
  kTopK,
  kTypicalP,
  kTopP,
  kMinP,
  kXtc,
  kTemperature,
};

// The order of the stages unless the user names another: the order of the enumeration.
std::vector<SamplerStage> DefaultSamplerOrder();
// "logit_bias", "penalties", "no_repeat_ngram", "dry", "top_n_sigma", "top_k", "typical_p", "top_p", "min_p",
// "xtc", "temperature".
std::string_view SamplerStageName(SamplerStage stage);
// Names separated by ';' or ','. INVALID_ARGUMENT for an unknown or repeated name. A stage that is left out
// does not run.
Result<std::vector<SamplerStage>> ParseSamplerOrder(std::string_view text);

struct TokenBias {
  int32_t token = 0;
  float bias = 0;  // added to the logit; -infinity bans the token
};

struct SamplingParams {
  uint64_t seed = 0;  // the same seed, logits and history give the same tokens
  std::vector<SamplerStage> order = DefaultSamplerOrder();

  // 0: greedy in every order, the largest logit after bias, penalties, no-repeat n-gram and DRY, ties to the
  // lowest id; the other stages do not run then.
  float temperature = 1;
  float dynamic_temperature = 0;  // range: temperature +- this by the entropy of the distribution; 0 off
  float dynamic_exponent = 1;     // of the normalised entropy

  int32_t top_k = 0;      // keep the k most likely tokens; 0 off
  float top_p = 1;        // keep the fewest tokens whose probability reaches this; 1 off
  float min_p = 0;        // keep tokens with at least this share of the most likely one's probability; 0 off
  float typical_p = 1;    // keep the most typical tokens whose probability reaches this; 1 off
  float top_n_sigma = 0;  // keep logits within n standard deviations of the largest; 0 off
  int32_t min_keep = 1;   // tokens that top_p, min_p, typical_p and XTC leave at least

  float xtc_probability = 0;  // chance that XTC acts on a token; 0 off
  float xtc_threshold =
      0.1f;  // all tokens at or above it but the least likely of them go; above 0.5 nothing does

  int32_t penalty_last_n = 64;   // tokens of history that the penalties see; 0 none, -1 all
  float repetition_penalty = 1;  // divides positive and multiplies negative logits of seen tokens; 1 off
  float presence_penalty = 0;    // subtracted once from the logit of a seen token
  float frequency_penalty = 0;   // subtracted for each occurrence

  int32_t no_repeat_ngram_size = 0;  // bans tokens that would repeat an n-gram of this size; 0 off

  float dry_multiplier = 0;  // penalty multiplier * base^(length - allowed); 0 off
  float dry_base = 1.75f;
  int32_t dry_allowed_length = 2;   // repeated suffixes shorter than this are free
  int32_t dry_penalty_last_n = -1;  // tokens of history that DRY sees; 0 none, -1 all
  // Token sequences that end a repetition (newline, quotes): a match does not cross them.
  std::vector<std::vector<int32_t>> dry_sequence_breakers;

  bool mirostat = false;      // version 2: draws from what the chain left, with surprise held near tau
  float mirostat_tau = 5;     // target surprise, bits
  float mirostat_eta = 0.1f;  // learning rate

  std::vector<TokenBias> logit_bias;

  // Log-probabilities that Sample reports: -1 none, 0 the chosen token's, n > 0 also the n most likely
  // tokens'.
  int32_t top_log_probabilities = -1;
  bool log_probabilities_after_chain = false;  // of the distribution drawn from, not of the model's own

  // INVALID_ARGUMENT naming the knob, its range and the value.
  Status Validate() const;
};

}  // namespace lamina
