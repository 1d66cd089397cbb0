#include "cli/devices.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/byte_size.h"
#include "cli/model_flags.h"
#include "lamina/env.h"

namespace lamina::cli {
namespace {

std::string Table(const Env& env) {
  std::string text =
      fmt::format("{:<8} {:<9} {:>12} {:>12}  {}\n", "device", "provider", "memory free", "total", "name");
  for (const DeviceInfo& device : env.Devices()) {
    text += fmt::format("{:<8} {:<9} {:>12} {:>12}  {}{}\n", device.device.ToString(), device.provider,
                        ApproximateByteSize(device.memory_free_bytes),
                        ApproximateByteSize(device.memory_total_bytes), device.name,
                        device.driver.empty() ? "" : fmt::format(" (driver {})", device.driver));
  }
  for (const ProviderProblem& problem : env.ProviderProblems()) {
    text += fmt::format("not available: {}: {}\n", problem.provider, problem.reason.message());
  }
  return text + fmt::format("CPU threads: {}\n", env.num_threads());
}

std::string Json(const Env& env) {
  nlohmann::ordered_json devices = nlohmann::ordered_json::array();
  for (const DeviceInfo& device : env.Devices()) {
    devices.push_back({{"device", device.device.ToString()},
                       {"provider", device.provider},
                       {"name", device.name},
                       {"driver", device.driver},
                       {"memory_free_bytes", device.memory_free_bytes},
                       {"memory_total_bytes", device.memory_total_bytes}});
  }
  nlohmann::ordered_json problems = nlohmann::ordered_json::array();
  for (const ProviderProblem& problem : env.ProviderProblems()) {
    problems.push_back({{"provider", problem.provider}, {"reason", problem.reason.message()}});
  }
  return nlohmann::ordered_json{
             {"devices", devices}, {"not_available", problems}, {"cpu_threads", env.num_threads()}}
             .dump(2) +
         "\n";
}

}  // namespace

void RegisterDevicesCommand(Commands& commands) {
  auto json = std::make_shared<bool>(false);
  auto libraries = std::make_shared<std::vector<std::string>>();
  CLI::App& app = commands.Add("devices", "List the devices that models can run on",
                               [json, libraries](Output& out) -> Result<ExitCode> {
                                 LAMINA_ASSIGN_OR_RETURN(const std::shared_ptr<Env> env, Env::Create());
                                 for (const std::string& library : *libraries) {
                                   // The list says which one was not loaded and why.
                                   static_cast<void>(RegisterProviderLibrary(*env, library));
                                 }
                                 out.Write(*json ? Json(*env) : Table(*env));
                                 return ExitCode::kSuccess;
                               });
  AddProviderLibraryFlag(app, *libraries);
  app.add_flag("--json", *json, "Print JSON")->group("Output");
}

}  // namespace lamina::cli
