#include "runtime/session_devices.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/log.h"
#include "weights/load/device_loader.h"

namespace lamina {
namespace {

constexpr std::string_view kProviderOptionPrefix = "ep.";

// The options of each provider, by its name.
Result<std::map<std::string, ProviderOptions>> ProviderOptionsOf(const SessionOptions& options) {
  std::map<std::string, ProviderOptions> by_provider;
  for (const auto& [key, value] : options.entries()) {
    if (key.rfind(kProviderOptionPrefix, 0) != 0) continue;
    const size_t dot = key.find('.', kProviderOptionPrefix.size());
    if (dot == std::string::npos) return InvalidArgumentError("{}: expected ep.PROVIDER.KEY", key);
    const std::string provider = key.substr(kProviderOptionPrefix.size(), dot - kProviderOptionPrefix.size());
    by_provider[provider][key.substr(dot + 1)] = value;
  }
  return by_provider;
}

Result<std::vector<std::shared_ptr<ProviderFactory>>> ChooseFactories(const EnvImpl& env,
                                                                      const SessionOptions& options) {
  const std::vector<std::shared_ptr<ProviderFactory>> present = env.ProviderFactories();
  if (options.providers().empty()) return present;
  std::vector<std::shared_ptr<ProviderFactory>> chosen;
  std::string names;
  for (const auto& factory : present) {
    if (!names.empty()) names += ", ";
    names += factory->name();
  }
  for (const std::string& name : options.providers()) {
    const auto found = std::find_if(present.begin(), present.end(),
                                    [&](const auto& factory) { return factory->name() == name; });
    if (found == present.end())
      return NotFoundError("there is no provider '{}'; present are: {}", name, names);
    if (*found != present.back()) chosen.push_back(*found);
  }
  chosen.push_back(present.back());
  return chosen;
}

// Takes the options of arenas out of those of a provider: arenas are the session's. Others of the name
// `arena.` are the provider's own (CUDA has some).
Result<BfcArenaConfig> TakeArenaOptions(const std::string& provider, ProviderOptions& options) {
  OptionValues values(ArenaOptionTable());
  for (const OptionSpec& spec : ArenaOptionTable().specs()) {
    const auto found = options.find(spec.key);
    if (found == options.end()) continue;
    LAMINA_RETURN_IF_ERROR(values.Set(spec.key, found->second).WithContext("ep." + provider));
    options.erase(found);
  }
  return ArenaConfigOf(values);
}

Status AddDevices(const std::shared_ptr<ExecutionProvider>& provider, const ProviderOptions& options,
                  const BfcArenaConfig& arena, SessionDevices& devices) {
  LAMINA_ASSIGN_OR_RETURN(const DeviceLoaderOptions loader_options,
                          DeviceLoaderOptions::FromProviderOptions(options));
  for (const DeviceDescription& description : provider->devices()) {
    SessionDevice device;
    device.description = description;
    device.provider = provider;
    device.arena = arena;
    device.loading = loader_options;
    LAMINA_ASSIGN_OR_RETURN(device.memory,
                            provider->CreateAllocator(description.device, MemoryKind::kDevice));
    if (!device.is_host() && provider->data_transfer() && !provider->external_data_loader()) {
      LAMINA_ASSIGN_OR_RETURN(
          device.generic_loader,
          DeviceLoader::Create(*provider, provider->host_registration(), description.device, loader_options));
    }
    devices.push_back(std::move(device));
  }
  return Status();
}

Status Copy(const SessionDevice& device, const MemoryCopy& copy) {
  if (copy.size_bytes == 0) return Status();
  DataTransfer* transfer = device.provider->data_transfer();
  if (!transfer) return InternalError("provider {} has no data transfer", device.provider->name());
  return transfer->CopyAsync(copy, nullptr).WithContext(device.name());
}

}  // namespace

Status SessionDevice::CopyFromHost(const void* source, void* destination, uint64_t size_bytes) const {
  return Copy(*this, {source, Device(), destination, device(), size_bytes});
}

Status SessionDevice::CopyToHost(const void* source, void* destination, uint64_t size_bytes) const {
  return Copy(*this, {source, device(), destination, Device(), size_bytes});
}

Result<SessionDevices> OpenDevices(const EnvImpl& env, const SessionOptions& options) {
  LAMINA_ASSIGN_OR_RETURN(auto provider_options, ProviderOptionsOf(options));
  LAMINA_ASSIGN_OR_RETURN(const auto factories, ChooseFactories(env, options));
  SessionDevices devices;
  std::map<DeviceKind, int16_t> next_ordinal;
  for (const auto& factory : factories) {
    const std::string name(factory->name());
    LAMINA_ASSIGN_OR_RETURN(const BfcArenaConfig arena, TakeArenaOptions(name, provider_options[name]));
    ProviderConfig config{provider_options[name], next_ordinal[factory->device_kind()]};
    provider_options.erase(name);
    Result<std::shared_ptr<ExecutionProvider>> provider = factory->Create(config);
    if (!provider.ok()) {
      const bool was_asked_for = !options.providers().empty() || !config.options.empty();
      const Status status = provider.status().WithContext("provider " + name);
      if (was_asked_for || factory == factories.back()) return status;
      // A machine without such devices is nothing to warn of.
      Log(status.code() == StatusCode::kNotFound ? LogLevel::kInfo : LogLevel::kWarning, "{}",
          status.message());
      continue;
    }
    LAMINA_RETURN_IF_ERROR(AddDevices(*provider, config.options, arena, devices));
    next_ordinal[factory->device_kind()] += static_cast<int16_t>((*provider)->devices().size());
  }
  if (!provider_options.empty()) {
    const auto& [name, unused] = *provider_options.begin();
    return InvalidArgumentError("ep.{}.{}: the session has no provider '{}'", name, unused.begin()->first,
                                name);
  }
  return devices;
}

std::vector<PlacementDevice> PlacementDevicesOf(const SessionDevices& devices) {
  std::vector<PlacementDevice> placement_devices;
  for (const SessionDevice& device : devices) {
    placement_devices.push_back({device.description, device.provider.get()});
  }
  return placement_devices;
}

}  // namespace lamina
