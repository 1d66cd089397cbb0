// The list of subcommands, in the order of `lamina --help`.
#include "cli/command.h"

namespace lamina::cli {

void RegisterAllCommands(Commands& /*commands*/) {}

}  // namespace lamina::cli
