// Runs a program and takes what it prints.
#pragma once

#include <string>
#include <vector>

#include "lamina/status.h"

namespace lamina {

struct ChildOutcome {
  int exit_code = -1;  // -1 where a signal ended it
  int signal = 0;
  std::string standard_output;
};

// arguments[0] is the program's path. Standard input is empty, standard error this process's. Waits for the
// end. IO where it cannot be started.
Result<ChildOutcome> RunChildProcess(const std::vector<std::string>& arguments);

}  // namespace lamina
