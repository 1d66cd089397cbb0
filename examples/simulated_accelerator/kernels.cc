#include "kernels.h"

#include <string>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "provider/adapter/kernel_exporter.h"
#include "providers/cpu/cpu_kernels.h"
#include "stream.h"

namespace sim {
namespace {

Outcome FromStatus(const lamina::Status& status) {
  return status.ok() ? Outcome()
                     : Outcome::Error(static_cast<LaminaStatusCode>(status.code()), status.message());
}

lamina::Status ToStatus(const Outcome& outcome) {
  if (outcome.ok()) return {};
  return {static_cast<lamina::StatusCode>(outcome.code), outcome.message};
}

// Runs kernels on the devices' compute queues, at addresses that they reach.
class SimHooks : public lamina::adapter::KernelHooks {
 public:
  SimHooks(const Devices& devices, const Options& options) : devices_(devices) {
    for (const auto& device : devices) {
      lamina::DeviceDescription description;
      description.name = device->name();
      description.memory_bytes = device->memory().capacity_bytes();
      description.granularity_bytes = device->memory().granularity_bytes();
      descriptions_.push_back(std::move(description));
      threads_.push_back(std::make_unique<lamina::ThreadPool>(options.compute_threads));
    }
  }

  std::span<const lamina::DeviceDescription> devices() const override { return descriptions_; }

  lamina::Result<void*> KernelAddress(int32_t device, void* address) override {
    DeviceMemory& memory = devices_[static_cast<size_t>(device)]->memory();
    if (memory.Contains(address)) return memory.Reach(address);
    return lamina::InternalError("an address that a kernel was given is no memory of sim:{}", device);
  }

  lamina::Status Run(const lamina::adapter::KernelCall& call,
                     lamina::FunctionRef<lamina::Status()> work) override {
    Device& device = *devices_[static_cast<size_t>(call.device)];
    // Figures of a memory shortage do not pass through Outcome: the kernel's own status is kept.
    lamina::Status status;
    const auto run = [&] {
      return device.RunKernel("node '" + std::string(call.node) + "'", [&] {
        status = Guarded(work);
        return Outcome();
      });
    };
    const Outcome outcome = call.stream ? Stream::From(call.stream).PutAndWait(run) : run();
    return outcome.ok() ? status : ToStatus(outcome);
  }

  lamina::ThreadPool& threads(int32_t device) override { return *threads_[static_cast<size_t>(device)]; }

 private:
  // An exception must not end the queue's thread.
  static lamina::Status Guarded(lamina::FunctionRef<lamina::Status()> work) {
    try {
      return work();
    } catch (const std::bad_alloc&) {
      return {lamina::StatusCode::kResourceExhausted, "no host memory"};
    } catch (const std::exception& error) {
      return {lamina::StatusCode::kInternal, error.what()};
    }
  }

  const Devices& devices_;
  std::vector<lamina::DeviceDescription> descriptions_;
  std::vector<std::unique_ptr<lamina::ThreadPool>> threads_;
};

lamina::Result<lamina::TypeSet> ParseTypes(const std::string& names) {
  lamina::TypeSet types;
  for (size_t begin = 0; begin < names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    const std::string name = names.substr(begin, end - begin);
    int32_t number = 1;
    while (lamina::DataTypeBits(static_cast<lamina::DataType>(number)) > 0 &&
           lamina::DataTypeName(static_cast<lamina::DataType>(number)) != name) {
      ++number;
    }
    const auto type = static_cast<lamina::DataType>(number);
    if (lamina::DataTypeBits(type) == 0) {
      return lamina::InvalidArgumentError("option 'without_types': there is no element type '{}'", name);
    }
    types = types | lamina::TypeSet(type);
    begin = end + 1;
  }
  return types;
}

class CpuKernels : public Kernels {
 public:
  CpuKernels(const LaminaEpApi& api, const Devices& devices, const Options& options)
      : hooks_(devices, options), exporter_(api, AllKernels(), hooks_) {}

  lamina::Status Export(const std::string& without_types, LaminaKernelWorkspaceEstimateFunc estimate) {
    LAMINA_ASSIGN_OR_RETURN(const lamina::TypeSet types, ParseTypes(without_types));
    return exporter_.Export(estimate, types);
  }
  const LaminaKernelRegistry* registry() const override { return exporter_.abi_registry(); }
  LaminaStatus* EstimateWorkspace(const LaminaNode* node, size_t* bytes) const noexcept override {
    return exporter_.EstimateWorkspace(node, bytes);
  }

 private:
  static lamina::KernelRegistry AllKernels() {
    lamina::KernelRegistry registry;
    lamina::RegisterCpuKernels(registry);
    return registry;
  }

  SimHooks hooks_;
  lamina::adapter::KernelExporter exporter_;
};

}  // namespace

Outcome Kernels::Make(const LaminaEpApi& api, const Devices& devices, const Options& options,
                      LaminaKernelWorkspaceEstimateFunc estimate, std::unique_ptr<Kernels>* kernels) {
  auto made = std::make_unique<CpuKernels>(api, devices, options);
  const lamina::Status status = made->Export(options.without_types, estimate);
  if (status.ok()) *kernels = std::move(made);
  return FromStatus(status);
}

}  // namespace sim
