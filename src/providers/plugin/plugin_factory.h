// A plugin's factory as a ProviderFactory.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "base/dynamic_library.h"
#include "lamina/lamina_ep.h"
#include "provider/provider.h"
#include "providers/plugin/ep_api.h"

namespace lamina::plugin {

// What messages of a plugin begin with.
class PluginLogger {
 public:
  explicit PluginLogger(std::string name) : name_(std::move(name)) { logger_.provider = name_.c_str(); }
  void set_name(const std::string& name) {
    name_ = name;
    logger_.provider = name_.c_str();
  }
  const LaminaLogger* get() const { return &logger_; }

 private:
  std::string name_;
  LaminaLogger logger_{};
};

// The LaminaEpFactory and the library it came from. Providers keep it alive.
struct OwnedFactory {
  OwnedFactory(LaminaEpFactory& owned_factory, LaminaReleaseEpFactoryFunc release_factory,
               std::shared_ptr<DynamicLibrary> from_library, std::shared_ptr<PluginLogger> its_logger)
      : factory(owned_factory),
        release(release_factory),
        library(std::move(from_library)),
        logger(std::move(its_logger)) {}
  ~OwnedFactory() { release(&factory); }
  OwnedFactory(const OwnedFactory&) = delete;
  OwnedFactory& operator=(const OwnedFactory&) = delete;

  LaminaEpFactory& factory;
  const LaminaReleaseEpFactoryFunc release;
  const std::shared_ptr<DynamicLibrary> library;  // null where the plugin is linked to the program
  const std::shared_ptr<PluginLogger> logger;
};

class PluginFactory : public ProviderFactory {
 public:
  // Versions, required entries, and what the names and the kind may be.
  static Status Check(const LaminaEpFactory* factory);
  // Takes `factory`, which was checked.
  PluginFactory(std::string name, LaminaEpFactory& factory, LaminaReleaseEpFactoryFunc release,
                std::shared_ptr<DynamicLibrary> library, std::shared_ptr<PluginLogger> logger);

  std::string_view name() const override { return name_; }
  std::string_view vendor() const override { return vendor_; }
  DeviceKind device_kind() const override { return kind_; }
  Result<std::shared_ptr<ExecutionProvider>> Create(const ProviderConfig& config) override;

 private:
  const std::string name_;
  const std::shared_ptr<OwnedFactory> owned_;
  const std::string vendor_;
  const DeviceKind kind_;
};

}  // namespace lamina::plugin
