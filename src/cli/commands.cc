// The list of subcommands, in the order of `lamina --help`.
#include <CLI/CLI.hpp>

#include "cli/bench_offsets.h"
#include "cli/command.h"

namespace lamina::cli {

void RegisterAllCommands(Commands& commands) {
  CLI::App& bench = commands.AddGroup("bench", "Measure parts of Lamina");
  RegisterBenchOffsetsCommand(commands, bench);
}

}  // namespace lamina::cli
