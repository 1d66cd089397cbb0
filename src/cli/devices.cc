#include "cli/devices.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/byte_size.h"
#include "lamina/env.h"

namespace lamina::cli {
namespace {

std::string Table(const Env& env) {
  std::string text =
      fmt::format("{:<8} {:<9} {:>12} {:>12}  {}\n", "device", "provider", "memory free", "total", "name");
  for (const DeviceInfo& device : env.Devices()) {
    text += fmt::format("{:<8} {:<9} {:>12} {:>12}  {}{}\n", device.device.ToString(), device.provider,
                        FormatByteSize(device.memory_free_bytes), FormatByteSize(device.memory_total_bytes),
                        device.name, device.driver.empty() ? "" : fmt::format(" (driver {})", device.driver));
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
  return nlohmann::ordered_json{{"devices", devices}, {"cpu_threads", env.num_threads()}}.dump(2) + "\n";
}

}  // namespace

void RegisterDevicesCommand(Commands& commands) {
  auto json = std::make_shared<bool>(false);
  CLI::App& app = commands.Add("devices", "List the devices that models can run on",
                               [json](Output& out) -> Result<ExitCode> {
                                 LAMINA_ASSIGN_OR_RETURN(const std::shared_ptr<Env> env, Env::Create());
                                 out.Write(*json ? Json(*env) : Table(*env));
                                 return ExitCode::kSuccess;
                               });
  app.add_flag("--json", *json, "Print JSON")->group("Output");
}

}  // namespace lamina::cli
