// Raw memory of a GPU, and host memory it copies from at full speed.
#pragma once

#include <cstdint>
#include <memory>

#include "lamina/status.h"
#include "provider/allocator.h"
#include "providers/cuda/cuda_device.h"

namespace lamina::cuda {

struct DeviceMemoryOptions {
  // ep.cuda.gpu_mem_limit: bytes that the allocators of one device may hold together; 0: no limit.
  uint64_t limit_bytes = 0;
  // ep.cuda.arena.use_cuda_mempool: a pool of the driver instead of one allocation for each request.
  bool use_pool = false;
  // ep.cuda.arena.cuda_mempool_release_threshold: freed bytes that the pool keeps.
  uint64_t pool_release_threshold_bytes = 0;
};

// What the allocators of one device hold together.
class DeviceMemoryAccount {
 public:
  DeviceMemoryAccount(const Device& device, uint64_t limit_bytes)
      : device_(device), limit_bytes_(limit_bytes) {}
  // RESOURCE_EXHAUSTED with MemoryShortage where the limit would be exceeded.
  Status Take(uint64_t bytes);
  void GiveBack(uint64_t bytes);
  uint64_t limit_bytes() const { return limit_bytes_; }

 private:
  const Device device_;
  const uint64_t limit_bytes_;
  std::mutex mutex_;
  uint64_t held_bytes_ = 0;
};

// The device's own memory, directly or through a pool. `device` outlives it.
Result<std::unique_ptr<Allocator>> CreateDeviceAllocator(CudaDevice& device,
                                                         std::shared_ptr<DeviceMemoryAccount> account,
                                                         const DeviceMemoryOptions& options);
// Pinned host memory. Large pieces are huge pages that are pinned afterwards, which takes a tenth of the time
// that the driver needs to make pinned memory itself.
std::unique_ptr<Allocator> CreatePinnedAllocator(CudaDevice& device);

}  // namespace lamina::cuda
