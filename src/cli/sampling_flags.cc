#include "cli/sampling_flags.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <random>

#include "base/error.h"
#include "cli/argument_form.h"
#include "cli/sampling_knobs.h"

namespace lamina::cli {
namespace {

// Used where neither a flag nor the model's files say anything.
constexpr float kDefaultTemperature = 0.8f;
constexpr int32_t kDefaultTopK = 40;
constexpr float kDefaultTopP = 0.95f;

uint64_t RandomSeed() {
  std::random_device device;
  // 53 bits: a number that every JSON reader keeps.
  return (static_cast<uint64_t>(device()) << 21) ^ device();
}

const char* GroupName(KnobGroup group) {
  switch (group) {
    case KnobGroup::kChoice:
      return "Choice of tokens";
    case KnobGroup::kPenalties:
      return "Penalties";
    case KnobGroup::kSearch:
      return "Search and speculation";
    default:
      return "Generation";
  }
}

void ApplyDefaults(const SamplingDefaults& defaults, GenerationSettings& settings) {
  SamplingParams& sampling = settings.sampling;
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
  sampling.seed = RandomSeed();
  if (defaults.random_seed && *defaults.random_seed >= 0) {
    sampling.seed = static_cast<uint64_t>(*defaults.random_seed);
  }
  settings.max_length_tokens = std::max<int64_t>(defaults.max_length.value_or(0), 0);
  settings.min_length_tokens = std::max<int64_t>(defaults.min_length.value_or(0), 0);
  settings.beams.num_beams = defaults.num_beams.value_or(1);
  settings.beams.num_return_sequences = defaults.num_return_sequences.value_or(1);
  settings.beams.length_penalty = defaults.length_penalty.value_or(1.0f);
  settings.beams.early_stopping = defaults.early_stopping.value_or(true);
  settings.dry_sequence_breakers = {"\n", ":", "\"", "*"};
}

ArgumentForm FormOf(const Knob& knob) {
  if (std::holds_alternative<FloatKnob>(knob.apply)) return ArgumentForm::kNumber;
  if (std::holds_alternative<CountKnob>(knob.apply)) return ArgumentForm::kWholeNumber;
  const std::string_view value_text = knob.value_text;
  if (value_text == "N") return ArgumentForm::kWholeNumber;
  return value_text == "X" ? ArgumentForm::kNumber : ArgumentForm::kText;
}

// Flags that only matter where tokens are drawn one by one are refused for a search.
Status CheckSearchFlags(const SamplingFlags& flags, const GenerationSettings& settings) {
  if (!settings.searches()) return Status();
  constexpr std::array<std::string_view, 10> kOfSearch = {
      "max-tokens",     "min-length",      "stop",      "seed",
      "repeat-penalty", "no-repeat-ngram", "num-beams", "num-return-sequences",
      "length-penalty", "early-stopping"};
  for (const auto& [name, values] : flags.given) {
    if (std::find(kOfSearch.begin(), kOfSearch.end(), name) != kOfSearch.end()) continue;
    if (name == "temperature" && settings.sampling.temperature == 0) continue;
    return InvalidArgumentError("--{} has no meaning for a search with {} beams (--num-beams 1 turns it off)",
                                name, settings.beams.num_beams);
  }
  return Status();
}

}  // namespace

void AddSamplingFlags(CLI::App& app, SamplingFlags& flags) {
  for (const KnobGroup group :
       {KnobGroup::kAnswer, KnobGroup::kChoice, KnobGroup::kPenalties, KnobGroup::kSearch}) {
    for (const Knob& knob : SamplingKnobs()) {
      if (knob.group != group) continue;
      std::string names = fmt::format("--{}", knob.name);
      if (knob.alias) names += fmt::format(",--{}", knob.alias);
      CLI::Option* option =
          app.add_option_function<std::vector<std::string>>(
                 names,
                 [&flags, &knob](const std::vector<std::string>& values) { flags.given[knob.name] = values; },
                 knob.description)
              ->option_text(knob.value_text)
              ->expected(1)
              ->allow_extra_args(false)
              ->multi_option_policy(knob.repeatable ? CLI::MultiOptionPolicy::TakeAll
                                                    : CLI::MultiOptionPolicy::TakeLast)
              ->group(GroupName(group));
      RequireForm(*option, FormOf(knob));
    }
  }
}

Result<GenerationSettings> ResolveSampling(const SamplingFlags& flags, const SamplingDefaults& defaults) {
  GenerationSettings settings;
  ApplyDefaults(defaults, settings);
  for (const Knob& knob : SamplingKnobs()) {
    const auto given = flags.given.find(knob.name);
    if (given != flags.given.end()) LAMINA_RETURN_IF_ERROR(ApplyKnob(knob, given->second, settings));
  }
  if (settings.beams.num_return_sequences > settings.beams.num_beams) {
    return InvalidArgumentError("--num-return-sequences: expected 1 to the number of beams ({}), found {}",
                                settings.beams.num_beams, settings.beams.num_return_sequences);
  }
  LAMINA_RETURN_IF_ERROR(CheckSearchFlags(flags, settings));
  LAMINA_RETURN_IF_ERROR(settings.sampling.Validate());
  settings.beams.repetition_penalty = settings.sampling.repetition_penalty;
  settings.beams.no_repeat_ngram_size = settings.sampling.no_repeat_ngram_size;
  return settings;
}

Status SetSamplingFlag(SamplingFlags& flags, const std::string& name, const std::string& value) {
  const Knob* knob = FindSamplingKnob(name);
  if (!knob) {
    std::vector<std::string> names;
    for (const Knob& known : SamplingKnobs()) names.emplace_back(known.name);
    return InvalidArgumentError("there is no setting '{}'; there are: {}", name, fmt::join(names, ", "));
  }
  std::vector<std::string>& given = flags.given[knob->name];
  if (!knob->repeatable) given.clear();
  given.push_back(value);
  return Status();
}

std::string DescribeSampling(const GenerationSettings& settings) {
  std::string text;
  const auto line = [&](std::string_view name, const auto& value) {
    text += fmt::format("{} {}\n", name, value);
  };
  const GenerationSettings off{.sampling = {}};
  for (const Knob& knob : SamplingKnobs()) {
    const std::string_view name = knob.name;
    const bool always = name == "temperature" || name == "top-k" || name == "top-p";
    if (const auto* number = std::get_if<FloatKnob>(&knob.apply)) {
      const float value = settings.sampling.*number->target;
      if (always || value != off.sampling.*number->target) line(name, value);
    } else if (const auto* count = std::get_if<CountKnob>(&knob.apply)) {
      const int32_t value = settings.sampling.*count->target;
      if (always || value != off.sampling.*count->target) line(name, value);
    }
  }
  if (settings.sampling.mirostat) line("mirostat", 2);
  if (settings.sampling.order != off.sampling.order) {
    std::vector<std::string_view> names;
    for (const SamplerStage stage : settings.sampling.order) names.push_back(SamplerStageName(stage));
    text += fmt::format("samplers {}\n", fmt::join(names, ","));
  }
  for (const TokenBias& bias : settings.sampling.logit_bias)
    text += fmt::format("logit-bias {}{:+}\n", bias.token, bias.bias);
  if (settings.searches()) {
    line("num-beams", settings.beams.num_beams);
    line("length-penalty", settings.beams.length_penalty);
    line("early-stopping", settings.beams.early_stopping ? "on" : "off");
  }
  if (settings.prompt_lookup.max_draft_tokens > 0)
    line("prompt-lookup", settings.prompt_lookup.max_draft_tokens);
  line("seed", settings.sampling.seed);
  line("max-tokens",
       settings.max_tokens == 0 ? "until the context is full" : std::to_string(settings.max_tokens));
  for (const std::string& stop : settings.stop) text += fmt::format("stop \"{}\"\n", stop);
  return text;
}

}  // namespace lamina::cli
