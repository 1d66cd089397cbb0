// `lamina optimize MODEL OUT`: writes the model as graph rewrites leave it, on request with converted
// weights.
#pragma once

#include "cli/command.h"

namespace lamina::cli {

void RegisterOptimizeCommand(Commands& commands);

}  // namespace lamina::cli
