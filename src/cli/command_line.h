// The `lamina` command: reads the command line, runs one subcommand, turns its outcome into an exit code.
#pragma once

#include "cli/command.h"

namespace lamina::cli {

// Sets process-wide state of an application: the disposition of SIGPIPE, the log level, standard streams.
ExitCode RunCommandLine(int argc, char** argv);

}  // namespace lamina::cli
