#include "generate/sampling/truncation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "generate/sampling/portable_math.h"

namespace lamina {

namespace {

size_t MinKeep(const SamplingParams& params) { return static_cast<size_t>(std::max(params.min_keep, 1)); }

// Keeps logits of at least `threshold`, or the most likely min_keep where those are more.
void KeepAtLeast(float threshold, size_t min_keep, Candidates* candidates) {
  const auto items = candidates->items();
  const auto passing = std::count_if(items.begin(), items.end(),
                                     [&](const Candidate& item) { return item.logit >= threshold; });
  if (static_cast<size_t>(passing) < min_keep) {
    candidates->KeepMostLikely(min_keep);
  } else {
    candidates->KeepIf([&](const Candidate& item) { return item.logit >= threshold; });
  }
}

// Entropy in nats of weights that add up to `sum`.
double Entropy(std::span<const double> weights, double sum) {
  double entropy = 0;
  for (const double weight : weights) {
    const double p = weight / sum;
    if (p > 0) entropy -= p * portable::Log(p);
  }
  return entropy;
}

}  // namespace

void KeepTopK(const SamplingParams& params, Candidates* candidates) {
  if (params.top_k > 0)
    candidates->KeepMostLikely(std::max(static_cast<size_t>(params.top_k), MinKeep(params)));
}

void KeepTopP(const SamplingParams& params, Candidates* candidates) {
  if (params.top_p < 1) candidates->KeepMass(params.top_p, MinKeep(params));
}

void KeepMinP(const SamplingParams& params, Candidates* candidates) {
  if (params.min_p <= 0) return;
  const float largest = candidates->MaxLogit();
  if (std::isinf(largest)) return;
  const auto threshold = static_cast<float>(static_cast<double>(largest) + portable::Log(params.min_p));
  KeepAtLeast(threshold, MinKeep(params), candidates);
}

void KeepTypical(const SamplingParams& params, Candidates* candidates) {
  if (params.typical_p >= 1) return;
  double sum = 0;
  const std::span<const double> weights = candidates->Weights(&sum);
  if (sum <= 0) return;
  const double entropy = Entropy(weights, sum);
  const std::span<double> distances = candidates->Scratch();
  for (size_t i = 0; i < weights.size(); ++i) {
    distances[i] = std::fabs(-portable::Log(weights[i] / sum) - entropy);
  }
  candidates->KeepSmallest(distances, weights, params.typical_p, MinKeep(params));
}

void KeepTopNSigma(const SamplingParams& params, Candidates* candidates) {
  if (params.top_n_sigma <= 0) return;
  const float largest = candidates->MaxLogit();
  if (std::isinf(largest)) return;
  double count = 0;
  double sum = 0;
  for (const Candidate& item : candidates->items()) {
    if (std::isinf(item.logit)) continue;
    sum += item.logit;
    ++count;
  }
  const double mean = sum / count;
  double squares = 0;
  for (const Candidate& item : candidates->items()) {
    if (!std::isinf(item.logit)) squares += (item.logit - mean) * (item.logit - mean);
  }
  const double deviation = std::sqrt(squares / count);
  const auto threshold = static_cast<float>(largest - params.top_n_sigma * deviation);
  KeepAtLeast(threshold, 1, candidates);
}

void ExcludeTopChoices(const SamplingParams& params, Random* random, Candidates* candidates) {
  if (params.xtc_probability <= 0 || params.xtc_threshold > 0.5f) return;
  if (random->NextUnit() >= params.xtc_probability) return;
  double sum = 0;
  const std::span<const double> weights = candidates->Weights(&sum);
  const auto items = candidates->items();
  // The least likely of the tokens that reach the threshold stays.
  const double threshold = params.xtc_threshold * sum;
  size_t reaching = 0;
  Candidate least;
  for (size_t i = 0; i < items.size(); ++i) {
    if (weights[i] < threshold || weights[i] <= 0) continue;
    if (reaching++ == 0 || MoreLikely(least, items[i])) least = items[i];
  }
  if (reaching < 2 || items.size() - (reaching - 1) < MinKeep(params)) return;
  candidates->KeepIf([&](const Candidate& item) { return !MoreLikely(item, least); });
}

void ApplyTemperature(const SamplingParams& params, Candidates* candidates) {
  double temperature = params.temperature;
  if (params.dynamic_temperature > 0) {
    const double lowest = std::max(0.0, temperature - params.dynamic_temperature);
    const double highest = temperature + params.dynamic_temperature;
    double sum = 0;
    const std::span<const double> weights = candidates->Weights(&sum);
    if (weights.size() < 2 || sum <= 0) return;
    const double largest_entropy = portable::Log(static_cast<double>(weights.size()));
    const double normalized = std::clamp(Entropy(weights, sum) / largest_entropy, 0.0, 1.0);
    // normalized^exponent by exp and log of the portable kind.
    const double share =
        normalized > 0 ? portable::Exp(params.dynamic_exponent * portable::Log(normalized)) : 0.0;
    temperature = lowest + (highest - lowest) * share;
  }
  if (temperature == 1) return;
  if (temperature <= 0) {
    candidates->KeepMostLikely(1);
    return;
  }
  const auto divisor = static_cast<float>(temperature);
  for (Candidate& item : candidates->items()) item.logit /= divisor;
}

}  // namespace lamina
