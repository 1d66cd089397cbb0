#include "support/subprocess.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "support/test_data.h"

namespace lamina::testing {
namespace {

std::string LaminaPath() { return std::string(LAMINA_BINARY_DIR) + "/lamina"; }

}  // namespace

// Streams go through files, so that no amount of output on one can block the other.
CommandOutcome RunCommand(const std::vector<std::string>& arguments, const std::string& input) {
  const TempDir folder;
  WriteWholeFile(folder.File("in"), input);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const std::string in = folder.File("in");
  const std::string out = folder.File("out");
  const std::string err = folder.File("err");
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, in.c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT, 0600);
  std::vector<char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  pid_t child = 0;
  const int error = posix_spawn(&child, pointers[0], &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot start " + arguments[0] + ": " + std::strerror(error));
  int status = 0;
  if (waitpid(child, &status, 0) != child) throw std::runtime_error("cannot wait for " + arguments[0]);
  CommandOutcome outcome;
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  outcome.standard_output = ReadWholeFile(out);
  outcome.standard_error = ReadWholeFile(err);
  return outcome;
}

CommandOutcome RunLamina(const std::vector<std::string>& arguments, const std::string& input) {
  std::vector<std::string> all = {LaminaPath()};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return RunCommand(all, input);
}

CommandOutcome RunShell(const std::string& line) {
  return RunCommand({"/bin/bash", "-c", "LAMINA=" + LaminaPath() + "\n" + line});
}

}  // namespace lamina::testing
