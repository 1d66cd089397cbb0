// Holds a session to its memory budget: whatever it takes from a device, planned or by an arena, is counted
// as the plan counts (in granules), and what would go beyond the budget is refused before the device is
// asked.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "provider/allocator.h"

namespace lamina {

// Thread-safe.
class BudgetedAllocator : public Allocator {
 public:
  BudgetedAllocator(std::unique_ptr<Allocator> memory, uint64_t budget_bytes, uint64_t granularity_bytes)
      : memory_(std::move(memory)), budget_bytes_(budget_bytes), granularity_bytes_(granularity_bytes) {}

  Device device() const override { return memory_->device(); }
  MemoryKind memory_kind() const override { return memory_->memory_kind(); }
  // RESOURCE_EXHAUSTED with a MemoryShortage also where the budget is used up.
  Result<void*> Alloc(uint64_t bytes) override;
  Result<void*> Reserve(uint64_t bytes) override;
  Result<void*> AllocOnStream(uint64_t bytes, Stream& stream) override;
  void Free(void* memory) override;
  AllocatorStats GetStats() const override;

 private:
  template <typename Take>
  Result<void*> Within(uint64_t bytes, Take&& take);

  const std::unique_ptr<Allocator> memory_;
  const uint64_t budget_bytes_;
  const uint64_t granularity_bytes_;
  mutable std::mutex mutex_;
  uint64_t in_use_bytes_ = 0;                    // guarded by mutex_
  std::unordered_map<void*, uint64_t> granted_;  // guarded by mutex_; rounded bytes by address
};

}  // namespace lamina
