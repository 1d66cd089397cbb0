// `lamina plan MODEL`: what would live where, without weights and without a device. `lamina bench plan MODEL`
// times it.
#pragma once

#include "cli/command.h"

namespace lamina::cli {

void RegisterPlanCommand(Commands& commands);
// `bench`: the group that the command belongs to. A line on standard output: nodes, milliseconds of parsing,
// and of everything after it (the least of --repeat times).
void RegisterBenchPlanCommand(Commands& commands, CLI::App& bench);

}  // namespace lamina::cli
