#include "lamina/env.h"

#include <map>

#include "base/error.h"
#include "base/log.h"
#include "providers/cpu/cpu_provider.h"
#include "runtime/env_impl.h"

namespace lamina {

EnvImpl::EnvImpl(int num_threads) : threads_(num_threads), cpu_(CreateCpuProvider()) {
  factories_.push_back(CreateCpuProviderFactory(cpu_));
}

Status EnvImpl::RegisterProvider(std::shared_ptr<ProviderFactory> factory) {
  const std::lock_guard lock(mutex_);
  for (const auto& present : factories_) {
    if (present->name() == factory->name()) {
      return InvalidArgumentError("there is a provider '{}' already", factory->name());
    }
  }
  factories_.insert(factories_.end() - 1, std::move(factory));
  return Status();
}

std::vector<std::shared_ptr<ProviderFactory>> EnvImpl::ProviderFactories() const {
  const std::lock_guard lock(mutex_);
  return factories_;
}

Env::Env(std::unique_ptr<EnvImpl> impl) : impl_(std::move(impl)) {}
Env::~Env() = default;

Result<std::shared_ptr<Env>> Env::Create(const EnvOptions& options) {
  constexpr int kMaxThreads = 4096;
  if (options.num_threads < 0 || options.num_threads > kMaxThreads) {
    return InvalidArgumentError("number of threads: expected 0 (one per core) to {}, found {}", kMaxThreads,
                                options.num_threads);
  }
  return std::shared_ptr<Env>(new Env(std::make_unique<EnvImpl>(options.num_threads)));
}

std::vector<DeviceInfo> Env::Devices() const {
  std::vector<DeviceInfo> infos;
  std::map<DeviceKind, int16_t> next_ordinal;
  for (const auto& factory : impl_->ProviderFactories()) {
    int16_t& ordinal = next_ordinal[factory->device_kind()];
    const Result<std::shared_ptr<ExecutionProvider>> provider = factory->Create({{}, ordinal});
    if (!provider.ok()) {
      LogWarning("provider {}: {}", factory->name(), provider.status().message());
      continue;
    }
    for (const DeviceDescription& device : (*provider)->devices()) {
      DeviceInfo info;
      info.device = device.device;
      info.provider = factory->name();
      info.name = device.name;
      info.memory_total_bytes = device.memory_bytes;
      info.memory_free_bytes = (*provider)->available_resource_bytes(device.device).value_or(0);
      infos.push_back(std::move(info));
      ++ordinal;
    }
  }
  return infos;
}

int Env::num_threads() const { return impl_->threads().num_threads(); }

}  // namespace lamina
