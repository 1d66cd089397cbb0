#include "cli/model_flags.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <limits>

#include "base/error.h"
#include "cli/argument_form.h"
#include "runtime/env_impl.h"
#include "runtime/session_config.h"

namespace lamina::cli {
namespace {

constexpr int64_t kMaxTokens = std::numeric_limits<int32_t>::max();

Status RefuseDescribedDevices(const ModelFlags& flags) {
  if (flags.devices.empty()) return Status();
  return UnsupportedError(
      "--device {}: nothing can run on a device that is only described; `lamina plan` can plan for it",
      flags.devices.front());
}

Status ApplyOptionFlags(const ModelFlags& flags, SessionOptions& options) {
  for (const std::string& name : CLI::detail::split(flags.providers, ',')) {
    if (!name.empty()) LAMINA_RETURN_IF_ERROR(options.AppendProvider(name).WithContext("--provider"));
  }
  for (const std::string& option : flags.options) {
    const size_t equals = option.find('=');
    if (equals == std::string::npos)
      return InvalidArgumentError("--option: expected KEY=VALUE, found '{}'", option);
    LAMINA_RETURN_IF_ERROR(options.Set(option.substr(0, equals), option.substr(equals + 1)));
  }
  if (flags.verify) LAMINA_RETURN_IF_ERROR(options.Set("session.verify_checksums", "1"));
  if (!flags.reading_threads.empty()) {
    constexpr int kMostThreads = 64;
    LAMINA_RETURN_IF_ERROR(
        ParseWholeNumber("--reading-threads", flags.reading_threads, 0, kMostThreads).status());
    LAMINA_RETURN_IF_ERROR(
        options.Set("ep.cuda.external_data_loader_reading_threads", flags.reading_threads));
  }
  const auto set = [&](const char* flag, const char* key, const std::string& value) -> Status {
    if (value.empty()) return Status();
    if (options.Find(key)) return InvalidArgumentError("{} and {} are both set", flag, key);
    return options.Set(key, value);
  };
  LAMINA_RETURN_IF_ERROR(set("--gpu-memory", "session.device_memory_budget", flags.gpu_memory));
  return set("--gpu-layers", "session.gpu_layers", flags.gpu_layers);
}

}  // namespace

void AddProviderLibraryFlag(CLI::App& app, std::vector<std::string>& libraries) {
  app.add_option("--provider-library", libraries,
                 "Load an execution provider from a library, under its own name or another")
      ->option_text("[NAME=]FILE")
      ->allow_extra_args(false)
      ->group("Model and devices");
}

Status RegisterProviderLibrary(Env& env, const std::string& library) {
  const size_t equals = library.find('=');
  // A path may contain '=' too: a name contains no slash.
  if (equals == std::string::npos || library.substr(0, equals).find('/') != std::string::npos) {
    return env.RegisterProviderLibrary("", library);
  }
  return env.RegisterProviderLibrary(library.substr(0, equals), library.substr(equals + 1));
}

void AddModelArgument(CLI::App& app, ModelFlags& flags) {
  app.add_option("MODEL", flags.model, "Model folder, .onnx file, or a name below models/ or $LAMINA_MODELS")
      ->required();
}

void AddModelFlags(CLI::App& app, ModelFlags& flags) {
  const auto add = [&](const char* name, std::string& value, const char* text, const char* description,
                       ArgumentForm form = ArgumentForm::kText) {
    RequireForm(*app.add_option(name, value, description)->option_text(text)->group("Model and devices"),
                form);
  };
  add("--variant", flags.variant, "NAME", "Which of several models of a folder: model_NAME.onnx");
  add("--provider", flags.providers, "NAME[,NAME]",
      "Execution providers in order of priority (default: all found)");
  AddProviderLibraryFlag(app, flags.provider_libraries);
  app.add_option("--device", flags.devices, "Describe a device: gpu:0=memory=8GiB,...")
      ->option_text("DEVICE=...")
      ->allow_extra_args(false)
      ->group("Model and devices");
  add("--gpu-memory", flags.gpu_memory, "SIZE", "Memory to use on each GPU: 6GiB, 75%, free-512MiB");
  add("--gpu-layers", flags.gpu_layers, "N|all", "Layers to place on the GPU (default: as many as fit)",
      ArgumentForm::kWholeNumberOrAll);
  add("--context", flags.context, "TOKENS", "Tokens a sequence may have (default: the model's, at most 4096)",
      ArgumentForm::kWholeNumberOrMax);
  add("--batch", flags.batch, "N", "Sequences that may run together (default 1)", ArgumentForm::kWholeNumber);
  add("--prefill-chunk", flags.prefill_chunk, "TOKENS", "Prompt tokens run at once (default 512)",
      ArgumentForm::kWholeNumber);
  add("--threads", flags.threads, "N", "Threads on the CPU (default: one per physical core)",
      ArgumentForm::kWholeNumber);
  add("--reading-threads", flags.reading_threads, "N",
      "Threads that read weights for CUDA GPUs; 0: copy from mapped files (docs/loading.md)",
      ArgumentForm::kWholeNumber);
  app.add_flag("--verify", flags.verify, "Compare external data files with the checksums in the model")
      ->group("Model and devices");
  RequireForm(*app.add_option("--option", flags.options, "Set a session option (docs/options.md)")
                   ->option_text("KEY=VALUE")
                   ->allow_extra_args(false)
                   ->group("Model and devices"),
              ArgumentForm::kAssignment);
}

Result<int64_t> ParseWholeNumber(const std::string& flag, const std::string& text, int64_t min, int64_t max) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < min || value > max) {
    return InvalidArgumentError("{}: expected a whole number from {} to {}, found '{}'", flag, min, max,
                                text);
  }
  return value;
}

Result<std::shared_ptr<Env>> MakeEnv(const ModelFlags& flags) {
  LAMINA_RETURN_IF_ERROR(RefuseDescribedDevices(flags));
  EnvOptions options;
  if (!flags.threads.empty()) {
    LAMINA_ASSIGN_OR_RETURN(const int64_t threads, ParseWholeNumber("--threads", flags.threads, 1, 4096));
    options.num_threads = static_cast<int>(threads);
  } else {
    // The option key has the meaning of the flag.
    LAMINA_ASSIGN_OR_RETURN(const SessionOptions session_options, MakeSessionOptions(flags));
    LAMINA_ASSIGN_OR_RETURN(const SessionConfig config, SessionConfig::FromOptions(session_options));
    options.num_threads = config.num_threads;
  }
  LAMINA_ASSIGN_OR_RETURN(std::shared_ptr<Env> env, Env::Create(options));
  for (const std::string& library : flags.provider_libraries) {
    LAMINA_RETURN_IF_ERROR(RegisterProviderLibrary(*env, library).WithContext("--provider-library"));
  }
  return env;
}

Result<SessionOptions> MakeSessionOptions(const ModelFlags& flags) {
  SessionOptions options;
  LAMINA_RETURN_IF_ERROR(ApplyOptionFlags(flags, options));
  return options;
}

Result<EngineOptions> MakeEngineOptions(const ModelFlags& flags, const ModelFolder& folder) {
  EngineOptions options;
  for (const auto& [key, value] : folder.session_options) {
    const Status status = SetFromModelFile(options.session, key, value);
    if (!status.ok()) return status.WithContext("genai_config.json");
  }
  LAMINA_RETURN_IF_ERROR(ApplyOptionFlags(flags, options.session));
  LAMINA_ASSIGN_OR_RETURN(const SessionConfig config, SessionConfig::FromOptions(options.session));
  options.context_length_tokens = config.context_length_tokens;
  options.max_sequences = config.max_batch;
  options.prefill_chunk_tokens = config.prefill_chunk_tokens;
  if (flags.context == "max") {
    options.context_length_tokens = folder.context_length_tokens;
  } else if (!flags.context.empty()) {
    LAMINA_ASSIGN_OR_RETURN(options.context_length_tokens,
                            ParseWholeNumber("--context", flags.context, 1, kMaxTokens));
  }
  if (!flags.batch.empty()) {
    LAMINA_ASSIGN_OR_RETURN(const int64_t batch, ParseWholeNumber("--batch", flags.batch, 1, 65536));
    options.max_sequences = static_cast<int>(batch);
  }
  if (!flags.prefill_chunk.empty()) {
    LAMINA_ASSIGN_OR_RETURN(const int64_t chunk,
                            ParseWholeNumber("--prefill-chunk", flags.prefill_chunk, 1, kMaxTokens));
    options.prefill_chunk_tokens = static_cast<int>(chunk);
  }
  return options;
}

}  // namespace lamina::cli
