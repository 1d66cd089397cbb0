// `lamina bench run MODEL`: how fast a model takes prompts in and makes tokens, in the columns of
// llama-bench, beside the rate at which memory could deliver the weights.
#pragma once

#include "cli/command.h"

namespace lamina::cli {

// `bench`: the group that the command belongs to.
void RegisterBenchRunCommand(Commands& commands, CLI::App& bench);

}  // namespace lamina::cli
