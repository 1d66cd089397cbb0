#include "cli/load_bench_device.h"

#include "base/clock.h"
#include "base/error.h"
#include "lamina/lamina.h"
#include "runtime/env_impl.h"

namespace lamina::cli {

Result<LoadBenchDevice> FindLoadBenchDevice(const std::string& designator) {
  LAMINA_ASSIGN_OR_RETURN(const std::shared_ptr<Env> env, Env::Create());
  std::string reasons;
  ProviderConfig config;
  for (const std::shared_ptr<ProviderFactory>& factory : env->impl().ProviderFactories()) {
    Result<std::shared_ptr<ExecutionProvider>> provider = factory->Create(config);
    if (!provider.ok()) {
      reasons += fmt::format("; {}: {}", factory->name(), provider.status().message());
      continue;
    }
    if ((*provider)->data_transfer() == nullptr) continue;
    for (const DeviceDescription& device : (*provider)->devices()) {
      if (designator.empty() || device.device.ToString() == designator) {
        return LoadBenchDevice{*provider, device};
      }
    }
    config.first_ordinal = static_cast<int16_t>(config.first_ordinal + (*provider)->devices().size());
  }
  return NotFoundError("there is no {} to load weights to{}",
                       designator.empty() ? "accelerator" : "device '" + designator + "'", reasons);
}

Result<double> TimeCpuSession(const std::string& model_path) {
  LAMINA_ASSIGN_OR_RETURN(const std::shared_ptr<Env> env, Env::Create());
  const int64_t start_ns = SystemClock().NowNs();
  LAMINA_RETURN_IF_ERROR(Session::Load(env, model_path).status());
  return static_cast<double>(SystemClock().NowNs() - start_ns) * 1e-9;
}

}  // namespace lamina::cli
