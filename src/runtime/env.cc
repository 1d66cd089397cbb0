#include "lamina/env.h"

#include "base/error.h"
#include "base/os.h"
#include "providers/cpu/cpu_provider.h"
#include "runtime/env_impl.h"

namespace lamina {

EnvImpl::EnvImpl(int num_threads) : threads_(num_threads) { providers_.push_back(CreateCpuProvider()); }

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
  for (const auto& provider : impl_->providers()) {
    for (const DeviceDescription& device : provider->devices()) {
      DeviceInfo info;
      info.device = device.device;
      info.provider = provider->name();
      info.name = device.name;
      info.memory_total_bytes = device.memory_bytes;
      if (device.device.is_host()) {
        const HostMemory memory = GetHostMemory();
        info.memory_total_bytes = memory.total_bytes;
        info.memory_free_bytes = memory.available_bytes;
      }
      infos.push_back(std::move(info));
    }
  }
  return infos;
}

int Env::num_threads() const { return impl_->threads().num_threads(); }

}  // namespace lamina
