#include "memory.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "stream.h"

namespace sim {
namespace {

constexpr size_t kAlignmentBytes = 256;

class DeviceAllocator : public LaminaAllocator {
 public:
  DeviceAllocator(const LaminaEpApi& api, std::shared_ptr<Device> device, LaminaMemoryType type)
      : LaminaAllocator{}, api_(api), device_(std::move(device)), type_(type) {
    lamina_version = LAMINA_EP_API_VERSION;
    Alloc = [](LaminaAllocator* self, uint64_t size_bytes, void** memory) noexcept {
      return Answer(From(self).api_, [&] { return From(self).Take(size_bytes, memory); });
    };
    Free = [](LaminaAllocator* self, void* memory) noexcept {
      if (From(self).type_ == LAMINA_MEMORY_HOST) {
        std::free(memory);
      } else {
        From(self).device_->Free(memory);
      }
    };
    Reserve = nullptr;        // the same as Alloc
    AllocOnStream = nullptr;  // the same as Alloc
    GetStats = [](LaminaAllocator* self, LaminaAllocatorStats* stats) noexcept {
      return Answer(From(self).api_, [&] {
        From(self).Fill(stats);
        return Outcome();
      });
    };
  }

 private:
  static DeviceAllocator& From(LaminaAllocator* self) { return *static_cast<DeviceAllocator*>(self); }

  Outcome Take(uint64_t size_bytes, void** memory) {
    if (type_ == LAMINA_MEMORY_DEVICE) return device_->Alloc(size_bytes, memory);
    const uint64_t rounded_bytes =
        (std::max<uint64_t>(size_bytes, 1) + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
    *memory = rounded_bytes < size_bytes ? nullptr : std::aligned_alloc(kAlignmentBytes, rounded_bytes);
    if (*memory) return {};
    return Outcome::Shortage("no host memory for " + std::to_string(size_bytes) + " bytes", size_bytes, 0);
  }

  void Fill(LaminaAllocatorStats* stats) const {
    if (type_ == LAMINA_MEMORY_HOST) return;
    const DeviceMemory::Usage usage = device_->memory().usage();
    stats->limit_bytes = device_->memory().capacity_bytes();
    stats->in_use_bytes = usage.resident_bytes;
    stats->total_allocated_bytes = usage.resident_bytes;
    stats->max_in_use_bytes = usage.peak_bytes;
    stats->max_alloc_size_bytes = usage.largest_bytes;
    stats->num_allocs = usage.allocations;
  }

  const LaminaEpApi& api_;
  const std::shared_ptr<Device> device_;
  const LaminaMemoryType type_;
};

// One end of a copy, as the device that does it reaches it.
Outcome Reach(const Devices& devices, int32_t device, const void* address, void** reached) {
  if (device == LAMINA_HOST_DEVICE) {
    *reached = const_cast<void*>(address);
    return {};
  }
  if (device < 0 || static_cast<size_t>(device) >= devices.size()) {
    return Outcome::Error(LAMINA_INVALID_ARGUMENT, "there is no device sim:" + std::to_string(device));
  }
  DeviceMemory& memory = devices[static_cast<size_t>(device)]->memory();
  if (!memory.Contains(address)) {
    return Outcome::Error(LAMINA_INVALID_ARGUMENT,
                          "a copy names an address that is no memory of sim:" + std::to_string(device));
  }
  *reached = memory.Reach(address);
  return {};
}

}  // namespace

LaminaAllocator* MakeAllocator(const LaminaEpApi& api, std::shared_ptr<Device> device,
                               LaminaMemoryType type) {
  return new DeviceAllocator(api, std::move(device), type);
}

void DeleteAllocator(LaminaAllocator* allocator) { delete static_cast<DeviceAllocator*>(allocator); }

DataTransfer::DataTransfer(const LaminaEpApi& api, const Devices& devices)
    : LaminaDataTransferImpl{}, api_(api), devices_(devices) {
  lamina_version = LAMINA_EP_API_VERSION;
  CanCopy = [](const LaminaDataTransferImpl*, int32_t source, int32_t destination) noexcept {
    return source != LAMINA_HOST_DEVICE || destination != LAMINA_HOST_DEVICE;
  };
  Copy = [](LaminaDataTransferImpl* self, const LaminaMemoryCopy* const* copies, size_t count,
            LaminaSyncStreamImpl* stream) noexcept {
    auto& transfer = *static_cast<DataTransfer*>(self);
    return Answer(transfer.api_, [&] { return transfer.CopyAll(copies, count, stream); });
  };
}

Outcome DataTransfer::CopyAll(const LaminaMemoryCopy* const* copies, size_t count,
                              LaminaSyncStreamImpl* stream) {
  for (size_t i = 0; i < count; ++i) {
    const LaminaMemoryCopy& copy = *copies[i];
    const bool to_host = copy.destination_device == LAMINA_HOST_DEVICE;
    const Device::Direction direction = to_host ? Device::Direction::kToHost
                                        : copy.source_device == LAMINA_HOST_DEVICE
                                            ? Device::Direction::kFromHost
                                            : Device::Direction::kBetweenDevices;
    void* source = nullptr;
    void* destination = nullptr;
    Outcome outcome = Reach(devices_, copy.source_device, copy.source, &source);
    if (outcome.ok()) {
      outcome = Reach(devices_, copy.destination_device, copy.destination, &destination);
    }
    if (!outcome.ok()) return outcome;
    // The host releases the provider after its streams' work is done, so that the device outlives the copy.
    Device* device =
        devices_[static_cast<size_t>(to_host ? copy.source_device : copy.destination_device)].get();
    const auto work = [device, direction, source, destination, size_bytes = copy.size_bytes] {
      return device->Copy(direction, destination, source, size_bytes);
    };
    if (stream) {
      Stream::From(stream).Put(work);
      continue;
    }
    outcome = work();
    if (!outcome.ok()) return outcome;
  }
  return {};
}

}  // namespace sim
