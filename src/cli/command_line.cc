#include "cli/command_line.h"

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <exception>
#include <map>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/edit_distance.h"
#include "base/log.h"
#include "lamina/version.h"

namespace lamina::cli {
namespace {

void PrintError(const std::string& command, std::string_view text) {
  fmt::print(stderr, "{}: {}\n", command, text);
}

// Without this, the first files that are opened would become standard streams that the caller had closed, and
// messages would be written into them.
void ReplaceClosedStandardStreams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) != -1) continue;
    // Opened the wrong way around: using it is still an error.
    const int opened = open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (opened != -1 && opened != descriptor) close(opened);
  }
}

// Indexed by LogLevel.
const std::vector<std::string> kLogLevels = {"trace", "debug", "info", "warning", "error", "off"};

class CommandLine : public Commands {
 public:
  CommandLine() : root_("Runs ONNX models, large language models first, inside a memory budget.", "lamina") {
    root_.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    root_.get_formatter()->column_width(36);
    root_.require_subcommand(1);
    root_.footer("'lamina COMMAND --help' explains a command.");
    AddGeneralFlags(root_);
    RegisterAllCommands(*this);
  }

  CLI::App& Add(const std::string& name, const std::string& description, CommandHandler handler,
                CLI::App* group) override {
    CLI::App& app = AddApp(group != nullptr ? *group : root_, name, description);
    handlers_[&app] = std::move(handler);
    return app;
  }

  CLI::App& AddGroup(const std::string& name, const std::string& description) override {
    CLI::App& app = AddApp(root_, name, description);
    app.require_subcommand(1);
    return app;
  }

  ExitCode Run(int argc, char** argv) {
    if (argc <= 1) {
      fmt::print(stderr, "{}", root_.help());
      return ExitCode::kUsage;
    }
    Output out(stdout);
    try {
      root_.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
      out.Write(Chosen().help(PathOf(Chosen().get_parent())));
      return Finish(out, ExitCode::kSuccess);
    } catch (const CLI::CallForVersion&) {
      out.Print("lamina {}\n", Version());
      return Finish(out, ExitCode::kSuccess);
    } catch (const CLI::ParseError& error) {
      return ReportUsageError(error);
    }
    const auto level = std::find(kLogLevels.begin(), kLogLevels.end(), log_level_);
    SetLogLevel(static_cast<LogLevel>(level - kLogLevels.begin()));
    return Finish(out, RunHandler(out));
  }

 private:
  CLI::App& AddApp(CLI::App& parent, const std::string& name, const std::string& description) {
    CLI::App& app = *parent.add_subcommand(name, description);
    app.group("Commands");
    AddGeneralFlags(app);
    return app;
  }

  void AddGeneralFlags(CLI::App& app) {
    app.set_help_flag("-h,--help", "Print this help")->group("General");
    app.set_version_flag("--version", Version(), "Print the version")->group("General");
    app.add_option("--log-level", log_level_,
                   "Least severe messages to print: trace, debug, info, warning (default), error or off")
        ->check(CLI::IsMember(kLogLevels))
        ->option_text("LEVEL")
        ->group("General");
  }

  // The innermost subcommand that was named, or the root.
  CLI::App& Chosen() {
    CLI::App* app = &root_;
    while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
    return *app;
  }

  // "lamina bench load".
  static std::string PathOf(const CLI::App* app) {
    if (app == nullptr) return "";
    const std::string parent = PathOf(app->get_parent());
    return parent.empty() ? app->get_name() : parent + " " + app->get_name();
  }

  ExitCode ReportUsageError(const CLI::ParseError& error) {
    CLI::App& app = Chosen();
    const std::string path = PathOf(&app);
    // What CLI11 did not understand explains more than what it then found missing.
    const std::vector<std::string> unexpected = root_.remaining(true);
    PrintError(path, unexpected.empty() ? error.what() : ExplainUnexpected(app, unexpected.front()));
    fmt::print(stderr, "Try '{} --help'.\n", path);
    return ExitCode::kUsage;
  }

  static std::string ExplainUnexpected(const CLI::App& app, const std::string& argument) {
    const bool is_flag = argument.size() > 1 && argument[0] == '-';
    const bool wants_command = app.get_require_subcommand_min() > 0;
    std::string text = (is_flag         ? "unknown flag '"
                        : wants_command ? "unknown command '"
                                        : "unexpected argument '") +
                       argument + "'";
    std::vector<std::string> candidates;
    if (is_flag) {
      for (const CLI::Option* option : app.get_options()) {
        for (const std::string& name : option->get_lnames()) candidates.push_back("--" + name);
      }
    } else if (wants_command) {
      for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
        candidates.push_back(command->get_name());
      }
    }
    const std::string nearest = NearestWord(argument.substr(0, argument.find('=')), candidates);
    if (!nearest.empty()) text += "; did you mean '" + nearest + "'?";
    return text;
  }

  ExitCode RunHandler(Output& out) {
    const CLI::App& app = Chosen();
    const std::string path = PathOf(&app);
    try {
      const Result<ExitCode> outcome = handlers_.at(&app)(out);
      if (outcome.ok()) return *outcome;
      if (!out.reader_gone()) PrintError(path, outcome.status().message());
    } catch (const std::bad_alloc&) {
      PrintError(path, "out of memory");
    } catch (const std::exception& error) {
      PrintError(path, std::string("internal error: ") + error.what());
    }
    return ExitCode::kFailure;
  }

  ExitCode Finish(Output& out, ExitCode code) {
    const Status flushed = out.Flush();
    if (flushed.ok()) return code;
    if (code == ExitCode::kSuccess && !out.reader_gone()) PrintError(PathOf(&Chosen()), flushed.message());
    return ExitCode::kFailure;
  }

  CLI::App root_;
  std::map<const CLI::App*, CommandHandler> handlers_;
  std::string log_level_ = "warning";
};

}  // namespace

ExitCode RunCommandLine(int argc, char** argv) {
  ReplaceClosedStandardStreams();
  // `lamina show MODEL | head` ends quietly, also below a parent that ignores the signal.
  std::signal(SIGPIPE, SIG_DFL);
  return CommandLine().Run(argc, argv);
}

}  // namespace lamina::cli
