// Allocators and copies of the simulated accelerator.
#pragma once

#include <memory>
#include <vector>

#include "device.h"
#include "lamina/lamina_ep.h"

namespace sim {

using Devices = std::vector<std::shared_ptr<Device>>;

// Memory of the device, or (LAMINA_MEMORY_HOST) host memory for its copies. Freed with DeleteAllocator.
LaminaAllocator* MakeAllocator(const LaminaEpApi& api, std::shared_ptr<Device> device, LaminaMemoryType type);
void DeleteAllocator(LaminaAllocator* allocator);

// Between the host and the devices, and between the devices.
class DataTransfer : public LaminaDataTransferImpl {
 public:
  DataTransfer(const LaminaEpApi& api, const Devices& devices);

 private:
  Outcome CopyAll(const LaminaMemoryCopy* const* copies, size_t count, LaminaSyncStreamImpl* stream);

  const LaminaEpApi& api_;
  const Devices& devices_;
};

}  // namespace sim
