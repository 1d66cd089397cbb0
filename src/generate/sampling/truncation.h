// Samplers that drop unlikely tokens, or with XTC the likely ones, and temperature.
//
// Sources: top-k: Fan et al. 2018; top-p: Holtzman et al. 2019; typical: Meister et al. 2022; min-p: Nguyen
// et al. 2024; top-n-sigma: Tang et al. 2024; XTC: p-e-w (text-generation-webui, pull request 6335); dynamic
// temperature: kalomaze's entropy sampling.
#pragma once

#include "generate/sampling/candidates.h"
#include "generate/sampling/random.h"
#include "generate/sampling/sampling_params.h"

namespace lamina {

void KeepTopK(const SamplingParams& params, Candidates* candidates);
void KeepTopP(const SamplingParams& params, Candidates* candidates);
void KeepMinP(const SamplingParams& params, Candidates* candidates);
void KeepTypical(const SamplingParams& params, Candidates* candidates);
void KeepTopNSigma(const SamplingParams& params, Candidates* candidates);
// Draws one number where it is on.
void ExcludeTopChoices(const SamplingParams& params, Random* random, Candidates* candidates);
void ApplyTemperature(const SamplingParams& params, Candidates* candidates);

}  // namespace lamina
