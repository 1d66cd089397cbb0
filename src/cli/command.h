// What a subcommand of `lamina` is. Each lies in its own file src/cli/<name>.{h,cc} with one function
// Register<Name>Command(Commands&) that src/cli/commands.cc calls:
//
//   void RegisterTokenizeCommand(Commands& commands) {
//     auto flags = std::make_shared<Flags>();
//     CLI::App& app = commands.Add("tokenize", "Turn text into token ids",
//                                  [flags](Output& out) { return Tokenize(*flags, out); });
//     app.add_option("MODEL", flags->model, "Model folder or tokenizer file")->required();
//     app.add_option("--stop", flags->stop, "...")->allow_extra_args(false);  // a vector: one value per flag
//   }
//
// Values that Lamina itself refuses (sizes, option keys, rules) are taken as text and parsed by the handler:
// its error status gives exit code 1, while what CLI11 refuses gives 2. A flag that is repeated counts with
// its last value.
#pragma once

#include <functional>
#include <string>

#include "cli/output.h"
#include "lamina/status.h"

namespace CLI {
class App;
}

namespace lamina::cli {

enum class ExitCode : int {
  kSuccess = 0,
  kFailure = 1,  // also a result that is a failure without being an error: a data set that does not match
  kUsage = 2,    // the command line itself: unknown flag, missing or malformed argument
};

// Does the command's work. Results go to `out`, messages to the log or standard error. An error status is
// printed as "lamina NAME: TEXT" and gives kFailure.
using CommandHandler = std::function<Result<ExitCode>(Output& out)>;

class Commands {
 public:
  virtual ~Commands() = default;
  // A subcommand to which the caller adds flags and arguments; owned by the command line. `group` is null or
  // the AddGroup that it belongs to.
  virtual CLI::App& Add(const std::string& name, const std::string& description, CommandHandler handler,
                        CLI::App* group = nullptr) = 0;
  // A subcommand that only has subcommands: `lamina bench offsets`.
  virtual CLI::App& AddGroup(const std::string& name, const std::string& description) = 0;
};

// Adds every subcommand there is.
void RegisterAllCommands(Commands& commands);

}  // namespace lamina::cli
