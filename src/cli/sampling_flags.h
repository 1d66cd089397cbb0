// Flags of generation and how they join with what the model's files say: a flag, else the files, else built
// in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "generate/model_folder.h"
#include "generate/sampling/sampling_params.h"
#include "lamina/status.h"

namespace CLI {
class App;
}

namespace lamina::cli {

struct SamplingFlags {
  std::string max_tokens;
  std::string temperature;
  std::string top_k;
  std::string top_p;
  std::string min_p;
  std::string repeat_penalty;
  std::string presence_penalty;
  std::string frequency_penalty;
  std::string seed;
  std::vector<std::string> stop;
};

void AddSamplingFlags(CLI::App& app, SamplingFlags& flags);

struct GenerationSettings {
  SamplingParams sampling;
  int64_t max_tokens = 0;  // 0: until the context is full
  std::vector<std::string> stop;
};

// INVALID_ARGUMENT names the flag and its range. Without --seed the seed is random.
Result<GenerationSettings> ResolveSampling(const SamplingFlags& flags, const SamplingDefaults& defaults);

// Sets one knob by the name of its flag without dashes ("temperature", "top_k" or "top-k", "stop", ...).
Status SetSamplingFlag(SamplingFlags& flags, const std::string& name, const std::string& value);
// One line per knob: name and value in force.
std::string DescribeSampling(const GenerationSettings& settings);

}  // namespace lamina::cli
