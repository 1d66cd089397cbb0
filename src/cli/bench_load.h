// `lamina bench load MODEL|--synthetic SIZE`: how fast weights come to a device, beside what the hardware
// could do and what simpler ways of loading reach. docs/performance.md shows a table.
//
// Every sample is a process of its own (the command runs itself with --sample), so that nothing is warm but
// what the sample wants warm: for cold samples the files are dropped from the page cache, for warm ones they
// are brought there, and either is checked.
#pragma once

#include "cli/command.h"

namespace lamina::cli {

// `bench`: the group that the command belongs to.
void RegisterBenchLoadCommand(Commands& commands, CLI::App& bench);

}  // namespace lamina::cli
