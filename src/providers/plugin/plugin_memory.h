// Memory and copies of a plugin's devices.
#pragma once

#include <memory>
#include <string>

#include "lamina/lamina_ep.h"
#include "provider/allocator.h"
#include "provider/data_transfer.h"
#include "providers/plugin/device_map.h"

namespace lamina::plugin {

// Checks what it gets: null, misaligned or failed allocations become statuses that name the device.
class PluginAllocator : public Allocator {
 public:
  // INTERNAL where a required entry is missing; `allocator` is then still the caller's.
  static Status Check(const LaminaAllocator* allocator);
  // Takes `allocator`, which was checked, and gives it back to `ep` when destroyed.
  PluginAllocator(LaminaEp& ep, LaminaAllocator& allocator, Device device, MemoryKind kind)
      : ep_(ep), allocator_(allocator), device_(device), kind_(kind) {}
  ~PluginAllocator() override;

  Device device() const override { return kind_ == MemoryKind::kPinned ? Device{} : device_; }
  MemoryKind memory_kind() const override { return kind_; }
  Result<void*> Alloc(uint64_t bytes) override;
  void Free(void* memory) override;
  Result<void*> Reserve(uint64_t bytes) override;
  Result<void*> AllocOnStream(uint64_t bytes, Stream& stream) override;
  AllocatorStats GetStats() const override;

 private:
  Result<void*> Checked(LaminaStatus* status, void* memory, uint64_t bytes) const;

  LaminaEp& ep_;
  LaminaAllocator& allocator_;
  const Device device_;
  const MemoryKind kind_;
};

// Host memory for a device without memory of its own.
std::unique_ptr<Allocator> MakeHostBackedAllocator(Device device);

class PluginDataTransfer : public DataTransfer {
 public:
  static Status Check(const LaminaDataTransferImpl* transfer);
  PluginDataTransfer(LaminaDataTransferImpl& transfer, const DeviceMap& devices)
      : transfer_(transfer), devices_(devices) {}
  bool CanCopy(const Device& source, const Device& destination) const override;
  Status CopyAsync(const MemoryCopy& copy, Stream* stream) override;

 private:
  LaminaDataTransferImpl& transfer_;
  const DeviceMap devices_;
};

// Between the host and devices that use host memory.
class HostBackedDataTransfer : public DataTransfer {
 public:
  explicit HostBackedDataTransfer(const DeviceMap& devices) : devices_(devices) {}
  bool CanCopy(const Device& source, const Device& destination) const override;
  Status CopyAsync(const MemoryCopy& copy, Stream* stream) override;

 private:
  const DeviceMap devices_;
};

}  // namespace lamina::plugin
