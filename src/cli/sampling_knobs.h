// The table of the flags of generation: names, meaning, and which setting each one changes.
#pragma once

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "cli/sampling_flags.h"
#include "lamina/status.h"

namespace lamina::cli {

// A number with its range.
struct FloatKnob {
  float SamplingParams::*target;
  float min;
  float max;
};
struct CountKnob {
  int32_t SamplingParams::*target;
  int32_t min;
};
// What is no plain number: reads all values that were given.
using KnobReader = Status (*)(const std::string& flag, const std::vector<std::string>& values,
                              GenerationSettings& settings);

enum class KnobGroup { kAnswer, kChoice, kPenalties, kSearch };

struct Knob {
  const char* name;   // of the flag, without dashes
  const char* alias;  // another name that users of llama.cpp or transformers know, or null
  const char* value_text;
  const char* description;
  KnobGroup group;
  std::variant<FloatKnob, CountKnob, KnobReader> apply;
  bool repeatable = false;  // may be given again: all values count
};

std::span<const Knob> SamplingKnobs();
// Null where no knob has the name; '_' counts as '-'.
const Knob* FindSamplingKnob(std::string name);

Status ApplyKnob(const Knob& knob, const std::vector<std::string>& values, GenerationSettings& settings);

}  // namespace lamina::cli
