#include "generate/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "generate/sampling/candidates.h"
#include "generate/sampling/history_penalties.h"
#include "generate/sampling/portable_math.h"
#include "generate/sampling/random.h"
#include "generate/sampling/truncation.h"

namespace lamina {

struct Sampler::State {
  State(const SamplingParams& sampling, int32_t vocab, size_t max_history)
      : params(sampling),
        vocab_size(vocab),
        candidates(vocab),
        penalties(params, vocab, max_history),
        random(params.seed),
        mirostat_mu(2.0 * params.mirostat_tau) {
    const auto reported = static_cast<size_t>(std::max(params.top_log_probabilities, 0));
    top.reserve(std::min(reported, static_cast<size_t>(vocab)));
    top_candidates.reserve(top.capacity() + 1);
  }

  bool greedy() const { return params.temperature == 0 && params.dynamic_temperature == 0; }
  bool reports() const { return params.top_log_probabilities >= 0; }

  void ApplyBias();
  void RunStage(SamplerStage stage, std::span<const int32_t> history);
  // An index into the candidates, drawn by weight.
  size_t Draw(std::span<const double> weights, double sum);
  Candidate Choose();
  Candidate ChooseByMirostat();
  // The report on `token` in the distribution that `logit_of(i)` gives for `count` tokens.
  template <typename CandidateAt>
  void Report(size_t count, CandidateAt candidate_at, SampledToken* sampled);

  const SamplingParams params;
  const int32_t vocab_size;
  Candidates candidates;
  HistoryPenalties penalties;
  Random random;
  double mirostat_mu;  // bits of surprise above which tokens are dropped
  std::vector<Candidate> top_candidates;
  std::vector<TokenLogProbability> top;
};

void Sampler::State::ApplyBias() {
  if (params.logit_bias.empty()) return;
  const auto items = candidates.items();
  const auto add = [](Candidate* item, float bias) {
    item->logit += bias;
    if (item->logit != item->logit) item->logit = -std::numeric_limits<float>::infinity();  // inf - inf
  };
  for (const TokenBias& bias : params.logit_bias) {
    if (bias.token < 0 || bias.token >= vocab_size) continue;
    if (candidates.all_by_id()) {
      add(&items[static_cast<size_t>(bias.token)], bias.bias);
      continue;
    }
    const auto found = std::find_if(items.begin(), items.end(),
                                    [&](const Candidate& item) { return item.token == bias.token; });
    if (found != items.end()) add(&*found, bias.bias);
  }
  candidates.LogitsChanged();
}

void Sampler::State::RunStage(SamplerStage stage, std::span<const int32_t> history) {
  switch (stage) {
    case SamplerStage::kLogitBias:
      return ApplyBias();
    case SamplerStage::kPenalties:
      return penalties.ApplyPenalties(history, &candidates);
    case SamplerStage::kNoRepeatNgram:
      return penalties.BanRepeatedNgrams(history, &candidates);
    case SamplerStage::kDry:
      return penalties.ApplyDry(history, &candidates);
    default:
      break;
  }
  if (greedy()) return;  // what remains drops tokens or scales all alike
  switch (stage) {
    case SamplerStage::kTopNSigma:
      return KeepTopNSigma(params, &candidates);
    case SamplerStage::kTopK:
      return KeepTopK(params, &candidates);
    case SamplerStage::kTypicalP:
      return KeepTypical(params, &candidates);
    case SamplerStage::kTopP:
      return KeepTopP(params, &candidates);
    case SamplerStage::kMinP:
      return KeepMinP(params, &candidates);
    case SamplerStage::kXtc:
      return ExcludeTopChoices(params, &random, &candidates);
    case SamplerStage::kTemperature:
      return ApplyTemperature(params, &candidates);
    default:
      return;
  }
}

size_t Sampler::State::Draw(std::span<const double> weights, double sum) {
  const double target = random.NextUnit() * sum;
  double reached = 0;
  size_t last_possible = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0) continue;
    reached += weights[i];
    last_possible = i;
    if (target < reached) return i;
  }
  return last_possible;
}

Candidate Sampler::State::Choose() {
  const auto items = candidates.items();
  if (greedy()) return *std::min_element(items.begin(), items.end(), MoreLikely);
  if (params.mirostat) return ChooseByMirostat();
  candidates.Settle();
  double sum = 0;
  const std::span<const double> weights = candidates.Weights(&sum);
  return items[Draw(weights, sum)];
}

// Basu et al. 2020, version 2: drops tokens whose surprise exceeds mu, then moves mu by the surprise of the
// token that was drawn.
Candidate Sampler::State::ChooseByMirostat() {
  candidates.Sort();
  double sum = 0;
  std::span<const double> weights = candidates.Weights(&sum);
  const auto surprise_bits = [&](double weight) { return -portable::Log(weight / sum) / portable::kLn2; };
  size_t kept = 1;
  while (kept < weights.size() && weights[kept] > 0 && surprise_bits(weights[kept]) <= mirostat_mu) ++kept;
  candidates.KeepMostLikely(kept);
  weights = candidates.Weights(&sum);
  const size_t chosen = Draw(weights, sum);
  mirostat_mu -= params.mirostat_eta * (surprise_bits(weights[chosen]) - params.mirostat_tau);
  return candidates.items()[chosen];
}

template <typename CandidateAt>
void Sampler::State::Report(size_t count, CandidateAt candidate_at, SampledToken* sampled) {
  float largest = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < count; ++i) largest = std::max(largest, candidate_at(i).logit);
  const auto shifted = [&](float logit) {
    return logit == largest ? 0.0 : static_cast<double>(logit) - static_cast<double>(largest);
  };
  double sum = 0;
  float chosen_logit = -std::numeric_limits<float>::infinity();
  const auto wanted = std::min(static_cast<size_t>(params.top_log_probabilities), count);
  // A heap whose front is the least likely of the most likely ones so far.
  top_candidates.clear();
  for (size_t i = 0; i < count; ++i) {
    const Candidate item = candidate_at(i);
    sum += portable::Exp(shifted(item.logit));
    if (item.token == sampled->token) chosen_logit = item.logit;
    if (wanted == 0 || (top_candidates.size() == wanted && !MoreLikely(item, top_candidates.front())))
      continue;
    top_candidates.push_back(item);
    std::push_heap(top_candidates.begin(), top_candidates.end(), MoreLikely);
    if (top_candidates.size() > wanted) {
      std::pop_heap(top_candidates.begin(), top_candidates.end(), MoreLikely);
      top_candidates.pop_back();
    }
  }
  const double log_sum = portable::Log(sum);
  sampled->log_probability = static_cast<float>(shifted(chosen_logit) - log_sum);
  std::sort_heap(top_candidates.begin(), top_candidates.end(), MoreLikely);
  top.clear();
  for (const Candidate& item : top_candidates) {
    top.push_back({item.token, static_cast<float>(shifted(item.logit) - log_sum)});
  }
  sampled->top = top;
}

Sampler::Sampler(std::unique_ptr<State> state) : state_(std::move(state)) {}
Sampler::Sampler(Sampler&&) noexcept = default;
Sampler& Sampler::operator=(Sampler&&) noexcept = default;
Sampler::~Sampler() = default;

Result<Sampler> Sampler::Create(const SamplingParams& params, int32_t vocab_size, size_t max_history) {
  if (vocab_size <= 0)
    return InvalidArgumentError("vocabulary size: expected at least 1, found {}", vocab_size);
  LAMINA_RETURN_IF_ERROR(params.Validate());
  return Sampler(std::make_unique<State>(params, vocab_size, max_history));
}

Result<SampledToken> Sampler::Sample(std::span<const float> logits, std::span<const int32_t> history) {
  State& state = *state_;
  if (logits.size() != static_cast<size_t>(state.vocab_size)) {
    return InvalidArgumentError("logits: expected {} (the vocabulary), found {}", state.vocab_size,
                                logits.size());
  }
  state.candidates.Assign(logits);
  for (const SamplerStage stage : state.params.order) state.RunStage(stage, history);
  if (state.candidates.MaxLogit() == -std::numeric_limits<float>::infinity()) {
    return InvalidArgumentError(
        "no token can be chosen: all logits are -infinity or not a number after the samplers");
  }
  SampledToken sampled;
  sampled.token = state.Choose().token;
  sampled.log_probability = std::numeric_limits<float>::quiet_NaN();
  if (!state.reports()) return sampled;
  if (state.params.log_probabilities_after_chain) {
    const auto items = state.candidates.items();
    state.Report(
        items.size(), [&](size_t i) { return items[i]; }, &sampled);
  } else {
    const auto candidate_at = [&](size_t i) {
      const float logit = logits[i];
      return Candidate{static_cast<int32_t>(i),
                       logit == logit ? logit : -std::numeric_limits<float>::infinity()};
    };
    state.Report(logits.size(), candidate_at, &sampled);
  }
  return sampled;
}

void Sampler::Reset() {
  state_->random = Random(state_->params.seed);
  state_->mirostat_mu = 2.0 * state_->params.mirostat_tau;
}

const SamplingParams& Sampler::params() const { return state_->params; }
int32_t Sampler::vocab_size() const { return state_->vocab_size; }

}  // namespace lamina
