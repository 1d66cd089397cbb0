#include "cli/sampling_flags.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <random>

#include "base/error.h"
#include "cli/model_flags.h"

namespace lamina::cli {
namespace {

// Used where neither a flag nor the model's files say anything.
constexpr float kDefaultTemperature = 0.8f;
constexpr int32_t kDefaultTopK = 40;
constexpr float kDefaultTopP = 0.95f;

struct Knob {
  const char* name;  // of the flag, without dashes
  std::string SamplingFlags::*text;
  const char* value_text;
  const char* description;
};

constexpr std::array<Knob, 9> kKnobs = {{
    {"max-tokens", &SamplingFlags::max_tokens, "N",
     "Most tokens of an answer (default: until the context is full)"},
    {"temperature", &SamplingFlags::temperature, "T", "Randomness; 0 always takes the most likely token"},
    {"top-k", &SamplingFlags::top_k, "K", "Choose among the K most likely tokens; 0: all"},
    {"top-p", &SamplingFlags::top_p, "P",
     "Choose among the fewest tokens with this probability together; 1: all"},
    {"min-p", &SamplingFlags::min_p, "P",
     "Least probability of a token, as a share of the most likely one's"},
    {"repeat-penalty", &SamplingFlags::repeat_penalty, "R",
     "Makes tokens of the last 64 less likely; 1: off"},
    {"presence-penalty", &SamplingFlags::presence_penalty, "X", "Subtracted from the logit of a token seen"},
    {"frequency-penalty", &SamplingFlags::frequency_penalty, "X",
     "Subtracted for each time a token was seen"},
    {"seed", &SamplingFlags::seed, "N", "Makes an answer repeatable (default: random, shown by --verbose)"},
}};

Result<float> ParseFloat(const std::string& flag, const std::string& text, float min, float max) {
  float value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= min && value <= max)) {
    return InvalidArgumentError("--{}: expected a number from {} to {}, found '{}'", flag, min, max, text);
  }
  return value;
}

Status TakeFloat(const char* flag, const std::string& text, float min, float max, float* target) {
  if (text.empty()) return Status();
  LAMINA_ASSIGN_OR_RETURN(*target, ParseFloat(flag, text, min, max));
  return Status();
}

uint64_t RandomSeed() {
  std::random_device device;
  // 53 bits: a number that every JSON reader keeps.
  return (static_cast<uint64_t>(device()) << 21) ^ device();
}

void ApplyDefaults(const SamplingDefaults& defaults, SamplingParams& sampling) {
  sampling.temperature = defaults.temperature.value_or(kDefaultTemperature);
  sampling.top_k = defaults.top_k.value_or(kDefaultTopK);
  sampling.top_p = defaults.top_p.value_or(kDefaultTopP);
  sampling.min_p = defaults.min_p.value_or(0.0f);
  sampling.typical_p = defaults.typical_p.value_or(1.0f);
  sampling.repetition_penalty = defaults.repetition_penalty.value_or(1.0f);
  sampling.no_repeat_ngram_size = defaults.no_repeat_ngram_size.value_or(0);
  if (defaults.do_sample.has_value() && !*defaults.do_sample) sampling.temperature = 0;
  // ONNX Runtime GenAI writes 0 where nothing is cut off.
  if (sampling.top_p <= 0) sampling.top_p = 1;
}

}  // namespace

void AddSamplingFlags(CLI::App& app, SamplingFlags& flags) {
  for (const Knob& knob : kKnobs) {
    app.add_option("--" + std::string(knob.name), flags.*knob.text, knob.description)
        ->option_text(knob.value_text)
        ->group("Generation");
  }
  app.add_option("--stop", flags.stop, "End the answer before this text (may be given again)")
      ->option_text("TEXT")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Generation");
}

Result<GenerationSettings> ResolveSampling(const SamplingFlags& flags, const SamplingDefaults& defaults) {
  GenerationSettings settings;
  SamplingParams& sampling = settings.sampling;
  ApplyDefaults(defaults, sampling);
  LAMINA_RETURN_IF_ERROR(TakeFloat("temperature", flags.temperature, 0, 100, &sampling.temperature));
  LAMINA_RETURN_IF_ERROR(TakeFloat("top-p", flags.top_p, 0, 1, &sampling.top_p));
  LAMINA_RETURN_IF_ERROR(TakeFloat("min-p", flags.min_p, 0, 1, &sampling.min_p));
  LAMINA_RETURN_IF_ERROR(
      TakeFloat("repeat-penalty", flags.repeat_penalty, 0.01f, 100, &sampling.repetition_penalty));
  LAMINA_RETURN_IF_ERROR(
      TakeFloat("presence-penalty", flags.presence_penalty, -100, 100, &sampling.presence_penalty));
  LAMINA_RETURN_IF_ERROR(
      TakeFloat("frequency-penalty", flags.frequency_penalty, -100, 100, &sampling.frequency_penalty));
  if (!flags.top_k.empty()) {
    LAMINA_ASSIGN_OR_RETURN(const int64_t top_k,
                            ParseWholeNumber("--top-k", flags.top_k, 0, std::numeric_limits<int32_t>::max()));
    sampling.top_k = static_cast<int32_t>(top_k);
  }
  if (!flags.max_tokens.empty()) {
    LAMINA_ASSIGN_OR_RETURN(settings.max_tokens, ParseWholeNumber("--max-tokens", flags.max_tokens, 1,
                                                                  std::numeric_limits<int32_t>::max()));
  }
  sampling.seed = RandomSeed();
  if (!flags.seed.empty()) {
    LAMINA_ASSIGN_OR_RETURN(const int64_t seed,
                            ParseWholeNumber("--seed", flags.seed, 0, std::numeric_limits<int64_t>::max()));
    sampling.seed = static_cast<uint64_t>(seed);
  }
  settings.stop = flags.stop;
  LAMINA_RETURN_IF_ERROR(sampling.Validate());
  return settings;
}

Status SetSamplingFlag(SamplingFlags& flags, const std::string& name, const std::string& value) {
  std::string flag = name;
  std::replace(flag.begin(), flag.end(), '_', '-');
  if (flag == "stop") {
    flags.stop.push_back(value);
    return Status();
  }
  std::vector<std::string> names{"stop"};
  for (const Knob& knob : kKnobs) {
    if (flag == knob.name) {
      flags.*knob.text = value;
      return Status();
    }
    names.emplace_back(knob.name);
  }
  return InvalidArgumentError("there is no setting '{}'; there are: {}", name, fmt::join(names, ", "));
}

std::string DescribeSampling(const GenerationSettings& settings) {
  const SamplingParams& sampling = settings.sampling;
  std::string text = fmt::format(
      "temperature {}\ntop-k {}\ntop-p {}\nmin-p {}\nrepeat-penalty {}\npresence-penalty "
      "{}\nfrequency-penalty {}\n"
      "seed {}\nmax-tokens {}\n",
      sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p, sampling.repetition_penalty,
      sampling.presence_penalty, sampling.frequency_penalty, sampling.seed,
      settings.max_tokens == 0 ? "until the context is full" : std::to_string(settings.max_tokens));
  for (const std::string& stop : settings.stop) text += fmt::format("stop \"{}\"\n", stop);
  return text;
}

}  // namespace lamina::cli
