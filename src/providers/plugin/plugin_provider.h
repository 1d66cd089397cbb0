// A plugin's provider as an ExecutionProvider.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/lamina_ep.h"
#include "provider/provider.h"
#include "providers/plugin/device_map.h"
#include "providers/plugin/plugin_factory.h"

namespace lamina::plugin {

class PluginProvider : public ExecutionProvider {
 public:
  // Takes `ep`, also where this fails: INTERNAL where its tables are broken, or what it says of itself.
  static Result<std::unique_ptr<PluginProvider>> Make(std::string name, std::string vendor, DeviceKind kind,
                                                      std::vector<DeviceDescription> devices,
                                                      int16_t first_ordinal,
                                                      std::shared_ptr<OwnedFactory> factory, LaminaEp* ep);
  ~PluginProvider() override;

  std::string_view name() const override { return name_; }
  std::string_view vendor() const override { return vendor_; }
  DeviceKind device_kind() const override { return map_.kind; }
  const KernelRegistry& kernel_registry() const override { return kernels_; }
  // What the plugin takes, and its reasons. Nodes with strings, with values that are no tensors or with graph
  // attributes do not reach it.
  Result<Capability> GetCapability(const CapabilityRequest& request) const override;

  std::span<const DeviceDescription> devices() const override { return devices_; }
  std::optional<uint64_t> available_resource_bytes(const Device& device) const override;
  Result<std::unique_ptr<Allocator>> CreateAllocator(const Device& device, MemoryKind kind) override;
  DataTransfer* data_transfer() override { return data_transfer_.get(); }
  Result<std::unique_ptr<Stream>> CreateStream(const Device& device, StreamPurpose purpose) override;
  IExternalDataLoader* external_data_loader() override { return loader_.get(); }
  Result<std::unique_ptr<Kernel>> Compile(const NodeInfo& node, const Graph& body) override;
  Status OnRunStart(const RunInfo& run, std::span<Stream* const> streams) override;
  Status OnRunEnd(const RunInfo& run, std::span<Stream* const> streams) override;

  // A table of the plugin's own (LaminaEp::GetExtension), or null.
  const void* Extension(const char* extension) const;

 private:
  PluginProvider(std::string name, std::string vendor, DeviceKind kind,
                 std::vector<DeviceDescription> devices, int16_t first_ordinal,
                 std::shared_ptr<OwnedFactory> factory);
  Status Open(LaminaEp* ep);
  Status OpenKernels();
  Status OpenMemory();
  Status CallRunHook(LaminaStatus* (*hook)(LaminaEp*, const LaminaRunInfo*, LaminaSyncStreamImpl* const*,
                                           size_t)LAMINA_EP_NOEXCEPT,
                     const RunInfo& run, std::span<Stream* const> streams) const;

  const std::string name_;
  const std::string vendor_;
  const std::vector<DeviceDescription> devices_;
  const DeviceMap map_;
  const std::shared_ptr<OwnedFactory> factory_;  // outlives ep_
  LaminaEp* ep_ = nullptr;
  KernelRegistry kernels_;
  std::unique_ptr<DataTransfer> data_transfer_;
  std::unique_ptr<IExternalDataLoader> loader_;
};

}  // namespace lamina::plugin
