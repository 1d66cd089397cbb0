// Flags that run, check, plan and bench share: which model, which devices, which bounds.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "generate/engine.h"
#include "generate/model_folder.h"
#include "lamina/lamina.h"

namespace CLI {
class App;
}

namespace lamina::cli {

struct ModelFlags {
  std::string model;
  std::string variant;
  std::string providers;
  std::vector<std::string> provider_libraries;  // [NAME=]FILE
  std::vector<std::string> devices;
  std::string gpu_memory;
  std::string gpu_layers;
  std::string context;
  std::string batch;
  std::string prefill_chunk;
  std::string threads;
  std::string reading_threads;
  bool verify = false;
  std::vector<std::string> options;  // KEY=VALUE
};

// Adds the argument MODEL.
void AddModelArgument(CLI::App& app, ModelFlags& flags);
// Adds the shared flags.
void AddModelFlags(CLI::App& app, ModelFlags& flags);

// The flag alone, for commands without a model.
void AddProviderLibraryFlag(CLI::App& app, std::vector<std::string>& libraries);
// "[NAME=]FILE" as the flag takes it. Errors of Env::RegisterProviderLibrary.
Status RegisterProviderLibrary(Env& env, const std::string& library);

// Parsed and checked. INVALID_ARGUMENT names the flag; UNSUPPORTED where a flag asks for a device that this
// build cannot serve.
Result<std::shared_ptr<Env>> MakeEnv(const ModelFlags& flags);
Result<SessionOptions> MakeSessionOptions(const ModelFlags& flags);
// For a language model of `folder`: the options of its genai_config.json, then those of the flags.
Result<EngineOptions> MakeEngineOptions(const ModelFlags& flags, const ModelFolder& folder);

// A whole number in [min, max]; INVALID_ARGUMENT "--flag: expected ..., found ...".
Result<int64_t> ParseWholeNumber(const std::string& flag, const std::string& text, int64_t min, int64_t max);

}  // namespace lamina::cli
