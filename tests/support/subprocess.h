// Runs a command as a user would, for tests of the `lamina` command.
#pragma once

#include <string>
#include <vector>

namespace lamina::testing {

struct CommandOutcome {
  int exit_code = -1;  // -1 where a signal ended the command
  int signal = 0;
  std::string standard_output;
  std::string standard_error;
};

// `arguments[0]` is the program's path. Standard input is `input` and then ends. Throws where it cannot be
// started.
CommandOutcome RunCommand(const std::vector<std::string>& arguments, const std::string& input = "");

// The built `lamina` command with these arguments.
CommandOutcome RunLamina(const std::vector<std::string>& arguments, const std::string& input = "");

// A line of the shell, with $LAMINA naming the built command: for pipes and redirections.
CommandOutcome RunShell(const std::string& line);

}  // namespace lamina::testing
