// `lamina show MODEL`: what a person wants to know of a model.
#pragma once

#include "cli/command.h"

namespace lamina::cli {

void RegisterShowCommand(Commands& commands);

}  // namespace lamina::cli
