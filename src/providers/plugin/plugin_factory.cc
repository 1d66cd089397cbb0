#include "providers/plugin/plugin_factory.h"

#include <array>
#include <vector>

#include "base/error.h"
#include "providers/plugin/host_status.h"
#include "providers/plugin/plugin_provider.h"
#include "providers/plugin/plugin_table.h"

namespace lamina::plugin {
namespace {

constexpr std::string_view kFactory = "its factory";
constexpr size_t kMaxDevices = 64;

// Options in the C form.
class OptionList {
 public:
  explicit OptionList(const ProviderOptions& options) {
    for (const auto& [key, value] : options) {
      keys_.push_back(key.c_str());
      values_.push_back(value.c_str());
    }
    list_.lamina_version = LAMINA_EP_API_VERSION;
    list_.count = keys_.size();
    list_.keys = keys_.data();
    list_.values = values_.data();
  }
  const LaminaKeyValues* get() const { return &list_; }

 private:
  std::vector<const char*> keys_;
  std::vector<const char*> values_;
  LaminaKeyValues list_{};
};

Status CheckDevice(const LaminaDeviceInfo& device, DeviceKind kind, size_t index) {
  if (!device.name || *device.name == '\0') return InternalError("its device {} has no name", index);
  if (static_cast<DeviceKind>(device.kind) != kind) {
    return InternalError("its device {} is of kind {}, its factory of kind {}", index,
                         static_cast<int>(device.kind), static_cast<int>(kind));
  }
  if (device.memory_bytes == 0) return InternalError("its device {} has no memory", index);
  if (device.reserved_bytes > device.memory_bytes) {
    return InternalError("its device {} reserves {} of {} bytes", index, device.reserved_bytes,
                         device.memory_bytes);
  }
  if (!(device.memory_bandwidth_bytes_per_s >= 0) || !(device.link_bandwidth_bytes_per_s >= 0) ||
      device.multiprocessors < 0) {
    return InternalError("its device {} has negative figures", index);
  }
  return Status();
}

}  // namespace

Status PluginFactory::Check(const LaminaEpFactory* factory) {
  LAMINA_RETURN_IF_ERROR(CheckTable(factory, kFactory));
  LAMINA_RETURN_IF_ERROR(RequireEntry(factory->GetName, kFactory, "GetName"));
  LAMINA_RETURN_IF_ERROR(RequireEntry(factory->GetVendor, kFactory, "GetVendor"));
  LAMINA_RETURN_IF_ERROR(RequireEntry(factory->GetDeviceKind, kFactory, "GetDeviceKind"));
  LAMINA_RETURN_IF_ERROR(RequireEntry(factory->GetSupportedDevices, kFactory, "GetSupportedDevices"));
  LAMINA_RETURN_IF_ERROR(RequireEntry(factory->CreateEp, kFactory, "CreateEp"));
  LAMINA_RETURN_IF_ERROR(RequireEntry(factory->ReleaseEp, kFactory, "ReleaseEp"));
  if (!factory->GetName(factory)) return InternalError("{} has no name", kFactory);
  if (!factory->GetVendor(factory)) return InternalError("{} has no vendor", kFactory);
  const LaminaDeviceKind kind = factory->GetDeviceKind(factory);
  if (kind != LAMINA_DEVICE_GPU && kind != LAMINA_DEVICE_NPU && kind != LAMINA_DEVICE_FPGA) {
    return UnsupportedError("{} has devices of kind {}: expected GPU, NPU or FPGA", kFactory,
                            static_cast<int>(kind));
  }
  return Status();
}

PluginFactory::PluginFactory(std::string name, LaminaEpFactory& factory, LaminaReleaseEpFactoryFunc release,
                             std::shared_ptr<DynamicLibrary> library, std::shared_ptr<PluginLogger> logger)
    : name_(std::move(name)),
      owned_(std::make_shared<OwnedFactory>(factory, release, std::move(library), std::move(logger))),
      vendor_(factory.GetVendor(&factory)),
      kind_(static_cast<DeviceKind>(factory.GetDeviceKind(&factory))) {}

Result<std::shared_ptr<ExecutionProvider>> PluginFactory::Create(const ProviderConfig& config) {
  LaminaEpFactory& factory = owned_->factory;
  const std::string context = fmt::format("provider {}", name_);
  const OptionList options(config.options);
  std::array<LaminaDeviceInfo, kMaxDevices> infos{};
  std::array<LaminaDeviceInfo*, kMaxDevices> info_list{};
  for (size_t i = 0; i < kMaxDevices; ++i) {
    infos[i].lamina_version = LAMINA_EP_API_VERSION;
    info_list[i] = &infos[i];
  }
  size_t count = 0;
  LAMINA_RETURN_IF_ERROR(
      TakeStatus(factory.GetSupportedDevices(&factory, options.get(), info_list.data(), kMaxDevices, &count))
          .WithContext(context));
  if (count > kMaxDevices) {
    return InternalError("{}: it says that it has {} devices, at most {} are possible", context, count,
                         kMaxDevices);
  }
  std::vector<DeviceDescription> devices;
  for (size_t i = 0; i < count; ++i) {
    const LaminaDeviceInfo& info = infos[i];
    LAMINA_RETURN_IF_ERROR(CheckDevice(info, kind_, i).WithContext(context));
    DeviceDescription device;
    device.device = {kind_, static_cast<int16_t>(config.first_ordinal + static_cast<int16_t>(i))};
    device.provider = name_;
    device.name = info.name;
    device.vendor = vendor_;
    device.memory_bytes = info.memory_bytes;
    device.reserved_bytes = info.reserved_bytes;
    device.granularity_bytes = std::max<uint64_t>(info.granularity_bytes, 1);
    device.memory_bandwidth_bytes_per_s = info.memory_bandwidth_bytes_per_s;
    device.link_bandwidth_bytes_per_s = info.link_bandwidth_bytes_per_s;
    device.compute_capability_major = info.compute_capability_major;
    device.compute_capability_minor = info.compute_capability_minor;
    device.multiprocessors = info.multiprocessors;
    devices.push_back(std::move(device));
  }
  LaminaEp* ep = nullptr;
  LAMINA_RETURN_IF_ERROR(
      TakeStatus(factory.CreateEp(&factory, options.get(), owned_->logger->get(), &ep)).WithContext(context));
  auto provider =
      PluginProvider::Make(name_, vendor_, kind_, std::move(devices), config.first_ordinal, owned_, ep);
  if (!provider.ok()) return provider.status().WithContext(context);
  return std::shared_ptr<ExecutionProvider>(*std::move(provider));
}

}  // namespace lamina::plugin
