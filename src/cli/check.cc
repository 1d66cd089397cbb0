#include "cli/check.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "cli/model_flags.h"
#include "runtime/data_set.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;

struct CheckFlags {
  ModelFlags model;
  std::vector<std::string> models;
  bool verbose = false;
};

// A model with recorded runs.
struct CheckedModel {
  std::string path;  // what ModelFolder::Open takes
  std::vector<std::string> data_sets;
};

Result<std::vector<CheckedModel>> FindModels(const CheckFlags& flags) {
  std::vector<CheckedModel> found;
  for (const std::string& argument : flags.models) {
    LAMINA_ASSIGN_OR_RETURN(const std::string path, FindModel(argument));
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      const fs::path parent = fs::path(path).parent_path();
      found.push_back({path, FindDataSets(parent.empty() ? "." : parent.string())});
      if (found.back().data_sets.empty())
        return NotFoundError("{}: there is no folder test_data_set_N beside it", path);
      continue;
    }
    const std::vector<std::string> folders = FindFoldersWithDataSets(path);
    if (folders.empty()) return NotFoundError("{}: there is no folder test_data_set_N in it", path);
    for (const std::string& folder : folders) found.push_back({folder, FindDataSets(folder)});
  }
  return found;
}

Result<std::unique_ptr<Session>> LoadModel(const CheckFlags& flags, const std::shared_ptr<Env>& env,
                                           const std::string& path) {
  LAMINA_ASSIGN_OR_RETURN(const ModelFolder folder, ModelFolder::Open(path, flags.model.variant));
  LAMINA_ASSIGN_OR_RETURN(EngineOptions options, MakeEngineOptions(flags.model, folder));
  // Recorded runs pass past and present as ordinary tensors.
  LAMINA_RETURN_IF_ERROR(options.session.Set("session.max_kv_caches", "0"));
  return Session::Load(env, folder.model_path, options.session);
}

Result<ExitCode> Check(const CheckFlags& flags, Output& out) {
  LAMINA_ASSIGN_OR_RETURN(const std::shared_ptr<Env> env, MakeEnv(flags.model));
  LAMINA_ASSIGN_OR_RETURN(const std::vector<CheckedModel> models, FindModels(flags));
  int passed = 0;
  int failed = 0;
  for (const CheckedModel& model : models) {
    const Result<std::unique_ptr<Session>> session = LoadModel(flags, env, model.path);
    if (flags.verbose && session.ok()) {
      fmt::print(stderr, "{}: {} kernels per step\n", model.path, (*session)->stats().num_steps);
    }
    for (const std::string& set : model.data_sets) {
      const Status status = session.ok() ? CheckDataSet(**session, set) : session.status();
      ++(status.ok() ? passed : failed);
      if (!status.ok()) out.Print("{}: {}\n", set, status.message());
    }
    LAMINA_RETURN_IF_ERROR(out.Flush());
  }
  out.Print("{} passed, {} failed\n", passed, failed);
  return failed == 0 ? ExitCode::kSuccess : ExitCode::kFailure;
}

}  // namespace

void RegisterCheckCommand(Commands& commands) {
  auto flags = std::make_shared<CheckFlags>();
  CLI::App& app = commands.Add("check", "Run recorded inputs and compare with the recorded outputs",
                               [flags](Output& out) { return Check(*flags, out); });
  app.add_option("MODEL", flags->models,
                 "Models (folders, .onnx files or names) or folders with models in them; every "
                 "test_data_set_N is run")
      ->required();
  app.add_flag("--verbose", flags->verbose, "Print how many kernels a step of each model runs");
  AddModelFlags(app, flags->model);
}

}  // namespace lamina::cli
