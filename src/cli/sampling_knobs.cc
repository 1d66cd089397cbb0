#include "cli/sampling_knobs.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "base/error.h"
#include "cli/model_flags.h"

namespace lamina::cli {
namespace {

constexpr int32_t kMostInt = std::numeric_limits<int32_t>::max();
constexpr float kMostFloat = 1e9F;

Result<float> ParseFloat(const std::string& flag, const std::string& text, float min, float max) {
  float value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= min && value <= max)) {
    return InvalidArgumentError("--{}: expected a number from {} to {}, found '{}'", flag, min, max, text);
  }
  return value;
}

Result<int64_t> ParseCount(const std::string& flag, const std::string& text, int64_t min, int64_t max) {
  return ParseWholeNumber("--" + flag, text, min, max);
}

Result<bool> ParseSwitch(const std::string& flag, const std::string& text) {
  if (text == "1" || text == "on" || text == "true") return true;
  if (text == "0" || text == "off" || text == "false") return false;
  return InvalidArgumentError("--{}: expected on or off, found '{}'", flag, text);
}

Status ReadMaxTokens(const std::string& flag, const std::vector<std::string>& values,
                     GenerationSettings& settings) {
  LAMINA_ASSIGN_OR_RETURN(settings.max_tokens, ParseCount(flag, values.back(), 1, kMostInt));
  // What the user says about the length holds, not what the model's files say.
  settings.max_length_tokens = 0;
  return Status();
}

Status ReadMinLength(const std::string& flag, const std::vector<std::string>& values,
                     GenerationSettings& settings) {
  LAMINA_ASSIGN_OR_RETURN(settings.min_length_tokens, ParseCount(flag, values.back(), 0, kMostInt));
  return Status();
}

Status ReadSeed(const std::string& flag, const std::vector<std::string>& values,
                GenerationSettings& settings) {
  LAMINA_ASSIGN_OR_RETURN(const int64_t seed,
                          ParseCount(flag, values.back(), 0, std::numeric_limits<int64_t>::max()));
  settings.sampling.seed = static_cast<uint64_t>(seed);
  return Status();
}

Status ReadStop(const std::string&, const std::vector<std::string>& values, GenerationSettings& settings) {
  settings.stop = values;
  return Status();
}

Status ReadOrder(const std::string& flag, const std::vector<std::string>& values,
                 GenerationSettings& settings) {
  std::string names = values.back();
  std::replace(names.begin(), names.end(), '-', '_');
  Result<std::vector<SamplerStage>> order = ParseSamplerOrder(names);
  if (!order.ok()) return order.status().WithContext("--" + flag);
  settings.sampling.order = *std::move(order);
  return Status();
}

Status ReadMirostat(const std::string& flag, const std::vector<std::string>& values,
                    GenerationSettings& settings) {
  if (values.back() != "0" && values.back() != "2") {
    return InvalidArgumentError("--{}: expected 2, or 0 for none, found '{}'", flag, values.back());
  }
  settings.sampling.mirostat = values.back() == "2";
  return Status();
}

// ID+BIAS, ID-BIAS or ID=BIAS; "inf" and "false" for the largest bias and a ban.
Result<TokenBias> ParseBias(const std::string& flag, const std::string& text) {
  const auto malformed = [&] {
    return InvalidArgumentError(
        "--{}: expected a token's id with what is added to its logit, as 15043+1, 15043-0.5 or 15043=-inf, "
        "found '{}'",
        flag, text);
  };
  const char* limit = text.data() + text.size();
  TokenBias bias;
  const auto [after_id, id_error] = std::from_chars(text.data(), limit, bias.token);
  if (id_error != std::errc() || after_id == limit || bias.token < 0) return malformed();
  const char* number = after_id + (*after_id == '=' || *after_id == '+' ? 1 : 0);
  if (number == after_id && *after_id != '-') return malformed();
  if (std::string_view(number, static_cast<size_t>(limit - number)) == "false") {
    bias.bias = -std::numeric_limits<float>::infinity();
    return bias;
  }
  const auto [end, error] = std::from_chars(number, limit, bias.bias);
  if (error != std::errc() || end != limit || bias.bias != bias.bias) return malformed();
  return bias;
}

Status ReadLogitBias(const std::string& flag, const std::vector<std::string>& values,
                     GenerationSettings& settings) {
  for (const std::string& value : values) {
    LAMINA_ASSIGN_OR_RETURN(const TokenBias bias, ParseBias(flag, value));
    settings.sampling.logit_bias.push_back(bias);
  }
  return Status();
}

Status ReadBreakers(const std::string&, const std::vector<std::string>& values,
                    GenerationSettings& settings) {
  settings.dry_sequence_breakers = values;
  std::erase(settings.dry_sequence_breakers, "none");
  return Status();
}

Status ReadLogProbabilities(const std::string& flag, const std::vector<std::string>& values,
                            GenerationSettings& settings) {
  LAMINA_ASSIGN_OR_RETURN(const int64_t count, ParseCount(flag, values.back(), 0, kMostInt));
  settings.sampling.top_log_probabilities = static_cast<int32_t>(count);
  return Status();
}

Status ReadNumBeams(const std::string& flag, const std::vector<std::string>& values,
                    GenerationSettings& settings) {
  LAMINA_ASSIGN_OR_RETURN(const int64_t count, ParseCount(flag, values.back(), 1, 1024));
  settings.beams.num_beams = static_cast<int32_t>(count);
  settings.beams.num_return_sequences =
      std::min(settings.beams.num_return_sequences, settings.beams.num_beams);
  return Status();
}

Status ReadNumReturnSequences(const std::string& flag, const std::vector<std::string>& values,
                              GenerationSettings& settings) {
  LAMINA_ASSIGN_OR_RETURN(const int64_t count, ParseCount(flag, values.back(), 1, 1024));
  settings.beams.num_return_sequences = static_cast<int32_t>(count);
  return Status();
}

Status ReadLengthPenalty(const std::string& flag, const std::vector<std::string>& values,
                         GenerationSettings& settings) {
  LAMINA_ASSIGN_OR_RETURN(settings.beams.length_penalty, ParseFloat(flag, values.back(), -100, 100));
  return Status();
}

Status ReadEarlyStopping(const std::string& flag, const std::vector<std::string>& values,
                         GenerationSettings& settings) {
  LAMINA_ASSIGN_OR_RETURN(settings.beams.early_stopping, ParseSwitch(flag, values.back()));
  return Status();
}

Status ReadPromptLookup(const std::string& flag, const std::vector<std::string>& values,
                        GenerationSettings& settings) {
  LAMINA_ASSIGN_OR_RETURN(const int64_t count, ParseCount(flag, values.back(), 0, 256));
  settings.prompt_lookup.max_draft_tokens = static_cast<int32_t>(count);
  return Status();
}

Status ReadPromptLookupNgram(const std::string& flag, const std::vector<std::string>& values,
                             GenerationSettings& settings) {
  LAMINA_ASSIGN_OR_RETURN(const int64_t count, ParseCount(flag, values.back(), 1, 64));
  settings.prompt_lookup.max_ngram = static_cast<int32_t>(count);
  return Status();
}

using P = SamplingParams;

constexpr std::array<Knob, 37> kKnobs = {{
    {"max-tokens", "n-predict", "N", "Most tokens of an answer (default: until the context is full)",
     KnobGroup::kAnswer, ReadMaxTokens},
    {"min-length", nullptr, "N", "No end of the answer before prompt and answer have N tokens",
     KnobGroup::kAnswer, ReadMinLength},
    {"stop", nullptr, "TEXT", "End the answer before this text (may be given again)", KnobGroup::kAnswer,
     ReadStop, /*repeatable=*/true},
    {"seed", nullptr, "N", "Makes an answer repeatable (default: random, shown by --verbose)",
     KnobGroup::kAnswer, ReadSeed},
    {"logprobs", nullptr, "N", "With --json: log-probability of each token and of the N most likely ones",
     KnobGroup::kAnswer, ReadLogProbabilities},

    {"temperature", "temp", "T", "Randomness; 0 always takes the most likely token", KnobGroup::kChoice,
     FloatKnob{&P::temperature, 0, 100}},
    {"dynamic-temperature", "dynatemp-range", "R",
     "Temperature from T - R to T + R by the entropy of the choice; 0: off", KnobGroup::kChoice,
     FloatKnob{&P::dynamic_temperature, 0, 100}},
    {"dynamic-exponent", "dynatemp-exp", "X", "Exponent of the entropy for it", KnobGroup::kChoice,
     FloatKnob{&P::dynamic_exponent, 0, 100}},
    {"top-k", nullptr, "K", "Choose among the K most likely tokens; 0: all", KnobGroup::kChoice,
     CountKnob{&P::top_k, 0}},
    {"top-p", nullptr, "P", "Choose among the fewest tokens with this probability together; 1: all",
     KnobGroup::kChoice, FloatKnob{&P::top_p, 0, 1}},
    {"min-p", nullptr, "P", "Least probability of a token, as a share of the most likely one's",
     KnobGroup::kChoice, FloatKnob{&P::min_p, 0, 1}},
    {"typical-p", "typical", "P",
     "Choose among the most typical tokens with this probability together; 1: all", KnobGroup::kChoice,
     FloatKnob{&P::typical_p, 0, 1}},
    {"top-n-sigma", "top-nsigma", "N", "Keep logits within N standard deviations of the largest; 0: all",
     KnobGroup::kChoice, FloatKnob{&P::top_n_sigma, 0, kMostFloat}},
    {"xtc-probability", nullptr, "P", "Chance to drop all likely tokens but the least likely of them; 0: off",
     KnobGroup::kChoice, FloatKnob{&P::xtc_probability, 0, 1}},
    {"xtc-threshold", nullptr, "P", "Probability from which on a token is likely for it", KnobGroup::kChoice,
     FloatKnob{&P::xtc_threshold, 0, 1}},
    {"min-keep", nullptr, "N", "Tokens that top-k, top-p, min-p, typical-p and XTC leave at least",
     KnobGroup::kChoice, CountKnob{&P::min_keep, 0}},
    {"mirostat", nullptr, "0|2", "Hold the surprise of the text near a target (version 2)",
     KnobGroup::kChoice, ReadMirostat},
    {"mirostat-tau", "mirostat-ent", "BITS", "Target surprise", KnobGroup::kChoice,
     FloatKnob{&P::mirostat_tau, 0, kMostFloat}},
    {"mirostat-eta", "mirostat-lr", "RATE", "How fast it is approached", KnobGroup::kChoice,
     FloatKnob{&P::mirostat_eta, 0, kMostFloat}},
    {"samplers", nullptr, "NAME[,NAME]",
     "Order of the samplers (docs/sampling.md); those left out do not run", KnobGroup::kChoice, ReadOrder},

    {"repeat-penalty", "repetition-penalty", "R", "Makes tokens of the last ones less likely; 1: off",
     KnobGroup::kPenalties, FloatKnob{&P::repetition_penalty, 0.01F, 100}},
    {"presence-penalty", nullptr, "X", "Subtracted from the logit of a token seen", KnobGroup::kPenalties,
     FloatKnob{&P::presence_penalty, -100, 100}},
    {"frequency-penalty", nullptr, "X", "Subtracted for each time a token was seen", KnobGroup::kPenalties,
     FloatKnob{&P::frequency_penalty, -100, 100}},
    {"repeat-last-n", nullptr, "N", "Tokens that these three look back on (default 64); 0: none, -1: all",
     KnobGroup::kPenalties, CountKnob{&P::penalty_last_n, -1}},
    {"no-repeat-ngram", "no-repeat-ngram-size", "N", "Say no N tokens in a row twice; 0: off",
     KnobGroup::kPenalties, CountKnob{&P::no_repeat_ngram_size, 0}},
    {"dry-multiplier", nullptr, "X", "Penalty for lengthening a repetition; 0: off", KnobGroup::kPenalties,
     FloatKnob{&P::dry_multiplier, 0, kMostFloat}},
    {"dry-base", nullptr, "X", "Its growth for each token of the repetition", KnobGroup::kPenalties,
     FloatKnob{&P::dry_base, 1, kMostFloat}},
    {"dry-allowed-length", nullptr, "N", "Shorter repetitions are free", KnobGroup::kPenalties,
     CountKnob{&P::dry_allowed_length, 0}},
    {"dry-penalty-last-n", nullptr, "N", "Tokens that it looks back on; 0: none, -1: all",
     KnobGroup::kPenalties, CountKnob{&P::dry_penalty_last_n, -1}},
    {"dry-sequence-breaker", nullptr, "TEXT",
     "Text that ends a repetition, in place of line break, ':', '\"' and '*' (may be given again; none: "
     "nothing)",
     KnobGroup::kPenalties, ReadBreakers, /*repeatable=*/true},
    {"logit-bias", nullptr, "ID+BIAS",
     "Added to the logit of a token: 15043+1, 15043-inf (may be given again)", KnobGroup::kPenalties,
     ReadLogitBias, /*repeatable=*/true},

    {"num-beams", nullptr, "N", "Search the likeliest answer with N beams in place of drawing tokens; 1: off",
     KnobGroup::kSearch, ReadNumBeams},
    {"num-return-sequences", nullptr, "N", "Print the N best answers of the search", KnobGroup::kSearch,
     ReadNumReturnSequences},
    {"length-penalty", nullptr, "X", "Exponent of the length that an answer's score is divided by",
     KnobGroup::kSearch, ReadLengthPenalty},
    {"early-stopping", nullptr, "on|off", "End the search with as many answers as beams", KnobGroup::kSearch,
     ReadEarlyStopping},
    {"prompt-lookup", "prompt-lookup-num-tokens", "N",
     "Guess up to N tokens from what was said before and check them at once; the answer stays the same",
     KnobGroup::kSearch, ReadPromptLookup},
    {"prompt-lookup-ngram", "max-matching-ngram-size", "N", "Longest ending that the guess looks for",
     KnobGroup::kSearch, ReadPromptLookupNgram},
}};

}  // namespace

std::span<const Knob> SamplingKnobs() { return kKnobs; }

const Knob* FindSamplingKnob(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  const auto found = std::find_if(kKnobs.begin(), kKnobs.end(), [&](const Knob& knob) {
    return name == knob.name || (knob.alias && name == knob.alias);
  });
  return found == kKnobs.end() ? nullptr : &*found;
}

Status ApplyKnob(const Knob& knob, const std::vector<std::string>& values, GenerationSettings& settings) {
  if (values.empty()) return Status();
  if (const auto* number = std::get_if<FloatKnob>(&knob.apply)) {
    LAMINA_ASSIGN_OR_RETURN(settings.sampling.*number->target,
                            ParseFloat(knob.name, values.back(), number->min, number->max));
    return Status();
  }
  if (const auto* count = std::get_if<CountKnob>(&knob.apply)) {
    LAMINA_ASSIGN_OR_RETURN(const int64_t value, ParseCount(knob.name, values.back(), count->min, kMostInt));
    settings.sampling.*count->target = static_cast<int32_t>(value);
    return Status();
  }
  return std::get<KnobReader>(knob.apply)(knob.name, values, settings);
}

}  // namespace lamina::cli
