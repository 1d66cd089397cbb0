#include "generate/sampling/sampling_params.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"

namespace lamina {

namespace {

struct StageName {
  SamplerStage stage;
  std::string_view name;
};

constexpr std::array<StageName, 11> kStages = {{
    {SamplerStage::kLogitBias, "logit_bias"},
    {SamplerStage::kPenalties, "penalties"},
    {SamplerStage::kNoRepeatNgram, "no_repeat_ngram"},
    {SamplerStage::kDry, "dry"},
    {SamplerStage::kTopNSigma, "top_n_sigma"},
    {SamplerStage::kTopK, "top_k"},
    {SamplerStage::kTypicalP, "typical_p"},
    {SamplerStage::kTopP, "top_p"},
    {SamplerStage::kMinP, "min_p"},
    {SamplerStage::kXtc, "xtc"},
    {SamplerStage::kTemperature, "temperature"},
}};

Status CheckRange(std::string_view name, double value, double low, double high) {
  if (value >= low && value <= high) return Status();
  return InvalidArgumentError("{}: expected a number from {} to {}, found {}", name, low, high, value);
}

}  // namespace

std::vector<SamplerStage> DefaultSamplerOrder() {
  std::vector<SamplerStage> order;
  for (const StageName& entry : kStages) order.push_back(entry.stage);
  return order;
}

std::string_view SamplerStageName(SamplerStage stage) {
  for (const StageName& entry : kStages) {
    if (entry.stage == stage) return entry.name;
  }
  return "unknown";
}

Result<std::vector<SamplerStage>> ParseSamplerOrder(std::string_view text) {
  std::vector<SamplerStage> order;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(";,"), text.size());
    std::string_view name = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    name.remove_prefix(std::min(name.find_first_not_of(' '), name.size()));
    name = name.substr(0, name.find_last_not_of(' ') + 1);
    if (name.empty()) continue;
    const auto found = std::find_if(kStages.begin(), kStages.end(),
                                    [&](const StageName& entry) { return entry.name == name; });
    if (found == kStages.end()) {
      std::string known;
      for (const StageName& entry : kStages) known += (known.empty() ? "" : ", ") + std::string(entry.name);
      return InvalidArgumentError("sampler order: '{}' is no sampler; there are: {}", name, known);
    }
    if (std::find(order.begin(), order.end(), found->stage) != order.end()) {
      return InvalidArgumentError("sampler order: '{}' is named twice", name);
    }
    order.push_back(found->stage);
  }
  return order;
}

Status SamplingParams::Validate() const {
  constexpr double kFinite = 1e9;
  struct Knob {
    const char* name;
    double value;
    double low;
    double high;
  };
  const std::array<Knob, 24> knobs = {{
      {"temperature", temperature, 0, kFinite},
      {"dynamic_temperature", dynamic_temperature, 0, kFinite},
      {"dynamic_exponent", dynamic_exponent, 0, kFinite},
      {"top_k", static_cast<double>(top_k), 0, 2147483647},
      {"top_p", top_p, 0, 1},
      {"min_p", min_p, 0, 1},
      {"typical_p", typical_p, 0, 1},
      {"top_n_sigma", top_n_sigma, 0, kFinite},
      {"min_keep", static_cast<double>(min_keep), 0, 2147483647},
      {"xtc_probability", xtc_probability, 0, 1},
      {"xtc_threshold", xtc_threshold, 0, 1},
      {"penalty_last_n", static_cast<double>(penalty_last_n), -1, 2147483647},
      {"repetition_penalty", repetition_penalty, 1e-6, kFinite},
      {"presence_penalty", presence_penalty, -kFinite, kFinite},
      {"frequency_penalty", frequency_penalty, -kFinite, kFinite},
      {"no_repeat_ngram_size", static_cast<double>(no_repeat_ngram_size), 0, 2147483647},
      {"dry_multiplier", dry_multiplier, 0, kFinite},
      {"dry_base", dry_base, 1, kFinite},
      {"dry_allowed_length", static_cast<double>(dry_allowed_length), 0, 2147483647},
      {"dry_penalty_last_n", static_cast<double>(dry_penalty_last_n), -1, 2147483647},
      {"mirostat_tau", mirostat_tau, 0, kFinite},
      {"mirostat_eta", mirostat_eta, 0, kFinite},
      {"top_log_probabilities", static_cast<double>(top_log_probabilities), -1, 2147483647},
      {"number of logit_bias entries", static_cast<double>(logit_bias.size()), 0, 2147483647},
  }};
  for (const Knob& knob : knobs)
    LAMINA_RETURN_IF_ERROR(CheckRange(knob.name, knob.value, knob.low, knob.high));
  for (const TokenBias& bias : logit_bias) {
    if (std::isnan(bias.bias))
      return InvalidArgumentError("logit_bias of token {} is not a number", bias.token);
  }
  for (size_t i = 0; i < order.size(); ++i) {
    if (std::find(order.begin(), order.begin() + static_cast<ptrdiff_t>(i), order[i]) !=
        order.begin() + static_cast<ptrdiff_t>(i)) {
      return InvalidArgumentError("sampler order: '{}' is named twice", SamplerStageName(order[i]));
    }
  }
  return Status();
}

}  // namespace lamina
