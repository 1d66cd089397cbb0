// Raw memory of a device.
#pragma once

#include <cstdint>
#include <string>

#include "lamina/status.h"
#include "lamina/types.h"

namespace lamina {

class Stream;

enum class MemoryKind : uint8_t {
  kDevice = 0,  // the device's own memory
  kPinned,      // host memory that the device copies from at full speed
};

struct AllocatorStats {
  uint64_t limit_bytes = 0;  // 0: none
  uint64_t in_use_bytes = 0;
  uint64_t total_allocated_bytes = 0;  // held from the level below
  uint64_t max_in_use_bytes = 0;
  uint64_t max_alloc_size_bytes = 0;
  uint64_t num_allocs = 0;
  uint64_t num_reserves = 0;
  uint64_t num_arena_extensions = 0;
  uint64_t num_arena_shrinkages = 0;
};

// Thread-safe.
class Allocator {
 public:
  virtual ~Allocator() = default;
  virtual Device device() const = 0;
  virtual MemoryKind memory_kind() const { return MemoryKind::kDevice; }
  // At least `bytes` (0 gives a unique address), aligned to 256. RESOURCE_EXHAUSTED with MemoryShortage.
  virtual Result<void*> Alloc(uint64_t bytes) = 0;
  // Null is ignored. REQUIRES: from this allocator, not freed before.
  virtual void Free(void* memory) = 0;
  // For allocations that live as long as the session (weights, frames): bypasses an arena's growth policy.
  virtual Result<void*> Reserve(uint64_t bytes) { return Alloc(bytes); }
  // Memory that only work put on `stream` from now on uses, so that it may be memory that earlier work on the
  // same stream has not finished with. Freed as any other.
  virtual Result<void*> AllocOnStream(uint64_t bytes, Stream& stream) {
    static_cast<void>(stream);
    return Alloc(bytes);
  }
  virtual AllocatorStats GetStats() const = 0;
};

}  // namespace lamina
