// lamina devices: what models can run on.
#pragma once

#include "cli/command.h"

namespace lamina::cli {

void RegisterDevicesCommand(Commands& commands);

}  // namespace lamina::cli
