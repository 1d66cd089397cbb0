// lamina synth OUT: writes a random decoder.
#pragma once

#include "cli/command.h"

namespace lamina::cli {

void RegisterSynthCommand(Commands& commands);

}  // namespace lamina::cli
