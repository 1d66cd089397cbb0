// The list of subcommands, in the order of `lamina --help`.
#include <CLI/CLI.hpp>

#include "cli/bench_load.h"
#include "cli/bench_offsets.h"
#include "cli/bench_run.h"
#include "cli/check.h"
#include "cli/command.h"
#include "cli/devices.h"
#include "cli/optimize.h"
#include "cli/plan.h"
#include "cli/run.h"
#include "cli/show.h"
#include "cli/synth.h"
#include "cli/tokenize.h"

namespace lamina::cli {

void RegisterAllCommands(Commands& commands) {
  RegisterRunCommand(commands);
  RegisterCheckCommand(commands);
  RegisterShowCommand(commands);
  RegisterOptimizeCommand(commands);
  RegisterPlanCommand(commands);
  RegisterTokenizeCommand(commands);
  CLI::App& bench = commands.AddGroup("bench", "Measure parts of Lamina");
  RegisterBenchLoadCommand(commands, bench);
  RegisterBenchOffsetsCommand(commands, bench);
  RegisterBenchRunCommand(commands, bench);
  RegisterBenchPlanCommand(commands, bench);
  RegisterSynthCommand(commands);
  RegisterDevicesCommand(commands);
}

}  // namespace lamina::cli
