// The chat on a terminal.
#pragma once

#include "cli/command.h"
#include "cli/run_flags.h"
#include "cli/text_model.h"

namespace lamina::cli {

// Reads lines until /bye or the end of input. Commands: /set /show /clear /bye /?. Text between """ and """
// may have several lines. Ctrl-C stops an answer; on an empty line, a second one leaves.
Result<ExitCode> RunChat(TextModel& model, RunFlags flags, Output& out);

}  // namespace lamina::cli
