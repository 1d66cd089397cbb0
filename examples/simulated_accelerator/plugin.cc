// A simulated accelerator as a provider plugin: what a provider has to do, with everything that can be done.
//
//   plugin.cc         what the library exports, the factory, the provider
//   options           ep.sim.KEY
//   device            a device: memory, engines, counters, failures on demand
//   device_memory     addresses that host code cannot touch
//   queue, stream     engines, streams, notifications
//   memory            allocators, copies
//   kernels           the CPU kernels of Lamina through the shared-source adapter; all else needs lamina_ep.h
//   only
//
// docs/providers.md explains the interface.
#include <memory>
#include <string>
#include <utility>

#include "device.h"
#include "kernels.h"
#include "lamina/lamina_ep.h"
#include "memory.h"
#include "options.h"
#include "outcome.h"
#include "simulated_accelerator.h"
#include "stream.h"

namespace sim {
namespace {

class Provider : public LaminaEp {
 public:
  static Outcome Make(const LaminaEpApi& api, const Options& options, LaminaEp** ep) {
    auto provider = std::unique_ptr<Provider>(new Provider(api, options));
    for (const auto& device : provider->devices_) {
      if (!device->memory().status().ok()) return device->memory().status();
    }
    const Outcome outcome =
        Kernels::Make(api, provider->devices_, options, &EstimateWorkspace, &provider->kernels_);
    if (outcome.ok()) *ep = provider.release();
    return outcome;
  }
  static Provider& From(LaminaEp* ep) { return *static_cast<Provider*>(ep); }

 private:
  Provider(const LaminaEpApi& api, const Options& options) : LaminaEp{}, api_(api) {
    for (int32_t i = 0; i < options.devices; ++i) devices_.push_back(std::make_shared<Device>(i, options));
    transfer_ = std::make_unique<DataTransfer>(api, devices_);
    FillControl();
    lamina_version = LAMINA_EP_API_VERSION;
    GetCapability = nullptr;  // every node that the registry has a kernel for
    GetKernelRegistry = [](LaminaEp* ep, const LaminaKernelRegistry** registry) noexcept -> LaminaStatus* {
      *registry = From(ep).kernels_->registry();
      return nullptr;
    };
    CreateAllocator = [](LaminaEp* ep, int32_t device, LaminaMemoryType type,
                         LaminaAllocator** allocator) noexcept {
      return Answer(From(ep).api_, [&] {
        *allocator = MakeAllocator(From(ep).api_, From(ep).At(device), type);
        return Outcome();
      });
    };
    ReleaseAllocator = [](LaminaEp*, LaminaAllocator* allocator) noexcept { DeleteAllocator(allocator); };
    GetDataTransfer = [](LaminaEp* ep, LaminaDataTransferImpl** transfer) noexcept -> LaminaStatus* {
      *transfer = From(ep).transfer_.get();
      return nullptr;
    };
    CreateSyncStream = [](LaminaEp* ep, int32_t device, LaminaStreamPurpose purpose,
                          LaminaSyncStreamImpl** stream) noexcept {
      return Answer(From(ep).api_, [&] {
        const std::shared_ptr<Device>& owner = From(ep).At(device);
        const Outcome alive = owner->Alive();
        if (alive.ok()) *stream = Stream::Make(From(ep).api_, owner, purpose);
        return alive;
      });
    };
    OnRunStart = [](LaminaEp* ep, const LaminaRunInfo*, LaminaSyncStreamImpl* const* streams,
                    size_t count) noexcept { return From(ep).CountRun(streams, count, 1); };
    OnRunEnd = [](LaminaEp* ep, const LaminaRunInfo*, LaminaSyncStreamImpl* const* streams,
                  size_t count) noexcept { return From(ep).CountRun(streams, count, -1); };
    GetExtension = [](LaminaEp* ep, const char* name) noexcept -> const void* {
      return std::string_view(name) == SIM_CONTROL_EXTENSION ? &From(ep).control_ : nullptr;
    };
    GetAvailableResource = [](LaminaEp* ep, int32_t device, LaminaResourceCount* available) noexcept {
      return Answer(From(ep).api_, [&] {
        DeviceMemory& memory = From(ep).At(device)->memory();
        available->kind = LAMINA_RESOURCE_BYTES;
        available->bytes = memory.capacity_bytes() - memory.usage().resident_bytes;
        return Outcome();
      });
    };
    GetExternalDataLoader = nullptr;  // weights come through the data transfer
  }

  static LaminaStatus* EstimateWorkspace(const LaminaEpApi*, const LaminaNode* node, const LaminaEp* ep,
                                         size_t* bytes) noexcept {
    return static_cast<const Provider*>(ep)->kernels_->EstimateWorkspace(node, bytes);
  }

  const std::shared_ptr<Device>& At(int32_t device) { return devices_.at(static_cast<size_t>(device)); }

  LaminaStatus* CountRun(LaminaSyncStreamImpl* const* streams, size_t count, int change) {
    for (size_t i = 0; i < count; ++i) Stream::From(streams[i]).device().RunMade(change);
    return nullptr;
  }

  void FillControl() {
    control_.self = this;
    control_.GetNumDevices = [](void* self) {
      return static_cast<int32_t>(static_cast<Provider*>(self)->devices_.size());
    };
    control_.GetCounters = [](void* self, int32_t device, SimCounters* counters) {
      *counters = static_cast<Provider*>(self)->At(device)->counters();
    };
    control_.Inject = [](void* self, int32_t device, SimFailure failure, uint64_t nth) {
      static_cast<Provider*>(self)->At(device)->Inject(failure, nth);
    };
  }

  const LaminaEpApi& api_;
  Devices devices_;
  std::unique_ptr<DataTransfer> transfer_;
  std::unique_ptr<Kernels> kernels_;
  SimControl control_{};
};

class Factory : public LaminaEpFactory {
 public:
  explicit Factory(const LaminaEpApi& api) : LaminaEpFactory{}, api_(api) {
    for (int i = 0; i < kMaxDevices; ++i) names_.push_back("Simulated accelerator " + std::to_string(i));
    lamina_version = LAMINA_EP_API_VERSION;
    GetName = [](const LaminaEpFactory*) noexcept { return "sim"; };
    GetVendor = [](const LaminaEpFactory*) noexcept { return "sim"; };
    GetVersion = [](const LaminaEpFactory*) noexcept { return "1.0.0"; };
    GetDeviceKind = [](const LaminaEpFactory*) noexcept { return LAMINA_DEVICE_GPU; };
    GetSupportedDevices = [](LaminaEpFactory* self, const LaminaKeyValues* options,
                             LaminaDeviceInfo* const* devices, size_t max_devices, size_t* count) noexcept {
      auto& factory = *static_cast<Factory*>(self);
      return Answer(factory.api_, [&] { return factory.Describe(options, devices, max_devices, count); });
    };
    CreateEp = [](LaminaEpFactory* self, const LaminaKeyValues* given, const LaminaLogger*,
                  LaminaEp** ep) noexcept {
      auto& factory = *static_cast<Factory*>(self);
      return Answer(factory.api_, [&] {
        Options options;
        const Outcome outcome = ParseOptions(given, &options);
        return outcome.ok() ? Provider::Make(factory.api_, options, ep) : outcome;
      });
    };
    ReleaseEp = [](LaminaEpFactory*, LaminaEp* ep) noexcept { delete &Provider::From(ep); };
  }

 private:
  static constexpr int kMaxDevices = 16;

  Outcome Describe(const LaminaKeyValues* given, LaminaDeviceInfo* const* devices, size_t max_devices,
                   size_t* count) const {
    Options options;
    const Outcome outcome = ParseOptions(given, &options);
    if (!outcome.ok()) return outcome;
    *count = std::min(static_cast<size_t>(options.devices), max_devices);
    for (size_t i = 0; i < *count; ++i) {
      LaminaDeviceInfo& device = *devices[i];
      device.kind = LAMINA_DEVICE_GPU;
      device.name = names_[i].c_str();
      device.driver = "1.0.0";
      device.memory_bytes = options.memory_bytes;
      device.granularity_bytes = options.granularity_bytes;
      device.memory_bandwidth_bytes_per_s = options.memory_bandwidth_bytes_per_s;
      device.link_bandwidth_bytes_per_s = options.link_bandwidth_bytes_per_s;
    }
    return {};
  }

  const LaminaEpApi& api_;
  std::vector<std::string> names_;
};

}  // namespace
}  // namespace sim

extern "C" {

LAMINA_EP_EXPORT LaminaStatus* CreateEpFactories(const char*, const LaminaApiBase* base, const LaminaLogger*,
                                                 LaminaEpFactory** factories, size_t max_factories,
                                                 size_t* num_factories) noexcept {
  *num_factories = 0;
  const LaminaEpApi* api = base->GetEpApi(LAMINA_EP_API_VERSION);
  if (!api) return nullptr;  // the host is older, and says so
  return sim::Answer(*api, [&] {
    if (max_factories < 1) return sim::Outcome::Error(LAMINA_INVALID_ARGUMENT, "there is no room");
    factories[0] = new sim::Factory(*api);
    *num_factories = 1;
    return sim::Outcome();
  });
}

LAMINA_EP_EXPORT void ReleaseEpFactory(LaminaEpFactory* factory) noexcept {
  delete static_cast<sim::Factory*>(factory);
}

}  // extern "C"
