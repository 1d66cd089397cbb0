// lamina run MODEL [PROMPT]: the model's answer on standard output; without a prompt, on a terminal, a chat.
#pragma once

#include "cli/command.h"

namespace lamina::cli {

void RegisterRunCommand(Commands& commands);

}  // namespace lamina::cli
