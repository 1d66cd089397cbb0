// Flags of generation and how they join with what the model's files say: a flag, else the files, else built
// in.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "generate/model_folder.h"
#include "generate/sampling/beam_search.h"
#include "generate/sampling/prompt_lookup.h"
#include "generate/sampling/sampling_params.h"
#include "lamina/status.h"

namespace CLI {
class App;
}

namespace lamina::cli {

struct SamplingFlags {
  // By the flag's name without dashes; flags that may be given once count as given last.
  std::map<std::string, std::vector<std::string>> given;
};

void AddSamplingFlags(CLI::App& app, SamplingFlags& flags);

struct GenerationSettings {
  SamplingParams sampling;
  int64_t max_tokens = 0;         // 0: until the context is full
  int64_t max_length_tokens = 0;  // prompt and answer together; 0: until the context is full
  int64_t min_length_tokens = 0;
  BeamSearchParams beams{.num_beams = 1};
  PromptLookupParams prompt_lookup{.max_draft_tokens = 0};
  std::vector<std::string> stop;
  std::vector<std::string> dry_sequence_breakers;

  bool searches() const { return beams.num_beams > 1; }
};

// INVALID_ARGUMENT names the flag and its range, or flags that exclude each other. Without --seed the seed is
// random.
Result<GenerationSettings> ResolveSampling(const SamplingFlags& flags, const SamplingDefaults& defaults);

// Sets one knob by the name of its flag without dashes ("temperature", "top_k" or "top-k", "stop", ...).
Status SetSamplingFlag(SamplingFlags& flags, const std::string& name, const std::string& value);
// One line per knob: name and value in force. Knobs that are off are left out.
std::string DescribeSampling(const GenerationSettings& settings);

}  // namespace lamina::cli
