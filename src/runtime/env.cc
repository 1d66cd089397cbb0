#include "lamina/env.h"

#include <iterator>
#include <map>
#include <set>

#include "base/error.h"
#include "providers/cpu/cpu_provider.h"
#include "providers/cuda/cuda_provider.h"
#include "providers/plugin/plugin_library.h"
#include "runtime/env_impl.h"

namespace lamina {
namespace {

// Each factory with a provider of default options, or the reason why there is none.
template <typename Function>
void ForEachProvider(const EnvImpl& env, Function&& function) {
  std::map<DeviceKind, int16_t> next_ordinal;
  for (const auto& factory : env.ProviderFactories()) {
    int16_t& ordinal = next_ordinal[factory->device_kind()];
    const Result<std::shared_ptr<ExecutionProvider>> provider = factory->Create({{}, ordinal});
    function(*factory, provider);
    if (provider.ok())
      ordinal = static_cast<int16_t>(ordinal + static_cast<int16_t>((*provider)->devices().size()));
  }
}

}  // namespace

EnvImpl::EnvImpl(int num_threads) : threads_(num_threads), cpu_(CreateCpuProvider()) {
  factories_.push_back(CreateCudaProviderFactory());
  factories_.push_back(CreateCpuProviderFactory(cpu_));
}

Status EnvImpl::RegisterProvider(std::shared_ptr<ProviderFactory> factory) {
  return RegisterProviders({std::move(factory)});
}

Status EnvImpl::RegisterProviders(std::vector<std::shared_ptr<ProviderFactory>> factories) {
  const std::lock_guard lock(mutex_);
  std::set<std::string_view> names;
  for (const auto& present : factories_) names.insert(present->name());
  for (const auto& factory : factories) {
    if (!names.insert(factory->name()).second) {
      return InvalidArgumentError("there is a provider '{}' already", factory->name());
    }
  }
  factories_.insert(factories_.end() - 1, std::make_move_iterator(factories.begin()),
                    std::make_move_iterator(factories.end()));
  return Status();
}

void EnvImpl::AddProblem(ProviderProblem problem) {
  const std::lock_guard lock(mutex_);
  problems_.push_back(std::move(problem));
}

std::vector<ProviderProblem> EnvImpl::Problems() const {
  const std::lock_guard lock(mutex_);
  return problems_;
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

Status Env::RegisterProviderLibrary(const std::string& name, const std::string& path) {
  auto factories = plugin::LoadProviderLibrary(name, path);
  Status status = factories.status();
  if (factories.ok()) {
    status = impl_
                 ->RegisterProviders(
                     {std::make_move_iterator(factories->begin()), std::make_move_iterator(factories->end())})
                 .WithContext(fmt::format("provider library '{}'", path));
  }
  if (!status.ok()) impl_->AddProblem({name.empty() ? path : name, status});
  return status;
}

std::vector<DeviceInfo> Env::Devices() const {
  std::vector<DeviceInfo> infos;
  ForEachProvider(*impl_, [&](const ProviderFactory& factory,
                              const Result<std::shared_ptr<ExecutionProvider>>& provider) {
    if (!provider.ok()) return;
    for (const DeviceDescription& device : (*provider)->devices()) {
      DeviceInfo info;
      info.device = device.device;
      info.provider = factory.name();
      info.name = device.name;
      info.memory_total_bytes = device.memory_bytes;
      info.memory_free_bytes = (*provider)->available_resource_bytes(device.device).value_or(0);
      infos.push_back(std::move(info));
    }
  });
  return infos;
}

std::vector<ProviderProblem> Env::ProviderProblems() const {
  std::vector<ProviderProblem> problems = impl_->Problems();
  ForEachProvider(*impl_, [&](const ProviderFactory& factory,
                              const Result<std::shared_ptr<ExecutionProvider>>& provider) {
    if (!provider.ok()) problems.push_back({std::string(factory.name()), provider.status()});
  });
  return problems;
}

int Env::num_threads() const { return impl_->threads().num_threads(); }

}  // namespace lamina
