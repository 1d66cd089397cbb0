// lamina check MODEL...: runs recorded inputs and compares with the recorded outputs.
#pragma once

#include "cli/command.h"

namespace lamina::cli {

void RegisterCheckCommand(Commands& commands);

}  // namespace lamina::cli
