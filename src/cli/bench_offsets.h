// `lamina bench offsets FILE.csv...`: the offset planner on sets of intervals (memory/interval_csv.h).
//
// A line on standard output for each file, in their order: its name, the peak found and the max-live lower
// bound in bytes, peak / bound, the seconds it took. Files are planned at the same time on --threads
// threads. Every layout is checked by the validator of src/plan. With --capacity a file whose peak stays
// above it makes the command fail (exit code 1) after all lines are written.
#pragma once

#include "cli/command.h"

namespace lamina::cli {

// `bench`: the group that the command belongs to.
void RegisterBenchOffsetsCommand(Commands& commands, CLI::App& bench);

}  // namespace lamina::cli
