#include "providers/plugin/plugin_library.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "providers/plugin/host_status.h"
#include "providers/plugin/plugin_factory.h"
#include "providers/plugin/plugin_table.h"

namespace lamina::plugin {
namespace {

constexpr size_t kMaxFactories = 4;

// Made by the library and not yet in a PluginFactory.
struct FactoryDeleter {
  LaminaReleaseEpFactoryFunc release;
  void operator()(LaminaEpFactory* factory) const { release(factory); }
};

Result<std::vector<std::unique_ptr<ProviderFactory>>> MakeFactories(const std::string& registered_name,
                                                                    LaminaCreateEpFactoriesFunc create,
                                                                    LaminaReleaseEpFactoryFunc release,
                                                                    std::shared_ptr<DynamicLibrary> library) {
  if (!registered_name.empty()) LAMINA_RETURN_IF_ERROR(CheckProviderName(registered_name));
  auto logger = std::make_shared<PluginLogger>(registered_name.empty() ? "a plugin" : registered_name);
  std::array<LaminaEpFactory*, kMaxFactories> made{};
  size_t count = 0;
  RefusedVersion::Begin();
  LAMINA_RETURN_IF_ERROR(TakeStatus(
      create(registered_name.c_str(), &ApiBase(), logger->get(), made.data(), made.size(), &count)));
  if (count == 0) {
    if (const uint32_t version = RefusedVersion::Get(); version != 0) {
      return CheckVersion(version, "it");
    }
    return UnsupportedError("it offers no provider");
  }
  if (count > made.size()) {
    return InternalError("it says that it made {} factories, there is room for {}", count, made.size());
  }
  std::vector<std::unique_ptr<LaminaEpFactory, FactoryDeleter>> owned;
  for (size_t i = 0; i < count; ++i) {
    if (!made[i]) return InternalError("its factory {} is null", i);
    owned.emplace_back(made[i], FactoryDeleter{release});
  }
  std::vector<std::unique_ptr<ProviderFactory>> factories;
  for (auto& factory : owned) {
    LAMINA_RETURN_IF_ERROR(PluginFactory::Check(factory.get()));
    const std::string own_name = factory->GetName(factory.get());
    const std::string& name = count == 1 && !registered_name.empty() ? registered_name : own_name;
    LAMINA_RETURN_IF_ERROR(CheckProviderName(name));
    logger->set_name(name);
    factories.push_back(std::make_unique<PluginFactory>(name, *factory.release(), release, library, logger));
  }
  return factories;
}

}  // namespace

Status CheckProviderName(std::string_view name) {
  constexpr std::array<std::string_view, 5> kDesignators = {"cpu", "gpu", "npu", "fpga", "accelerator"};
  if (std::find(kDesignators.begin(), kDesignators.end(), name) != kDesignators.end()) {
    return InvalidArgumentError("'{}' cannot be the name of a provider: it stands for a kind of device",
                                name);
  }
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const bool valid = !name.empty() && is_letter(name.front()) &&
                     std::all_of(name.begin(), name.end(),
                                 [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_'; });
  if (valid) return Status();
  return InvalidArgumentError(
      "'{}' cannot be the name of a provider: expected lower-case letters, digits and '_', beginning with a "
      "letter",
      name);
}

Result<std::vector<std::unique_ptr<ProviderFactory>>> MakePluginFactories(
    const std::string& registered_name, LaminaCreateEpFactoriesFunc create,
    LaminaReleaseEpFactoryFunc release) {
  return MakeFactories(registered_name, create, release, nullptr);
}

Result<std::vector<std::unique_ptr<ProviderFactory>>> LoadProviderLibrary(const std::string& registered_name,
                                                                          const std::string& path) {
  LAMINA_ASSIGN_OR_RETURN(std::shared_ptr<DynamicLibrary> library, DynamicLibrary::Open(path));
  const std::string context = fmt::format("provider library '{}'", path);
  const auto create = library->Function<LaminaCreateEpFactoriesFunc>("CreateEpFactories");
  const auto release = library->Function<LaminaReleaseEpFactoryFunc>("ReleaseEpFactory");
  if (!create || !release) {
    return UnsupportedError("{}: it does not export {}", context,
                            create ? "ReleaseEpFactory" : "CreateEpFactories");
  }
  auto factories = MakeFactories(registered_name, create, release, library);
  if (!factories.ok()) return factories.status().WithContext(context);
  return factories;
}

}  // namespace lamina::plugin
