#include "runtime/budgeted_allocator.h"

#include <algorithm>

#include "base/error.h"

namespace lamina {

template <typename Take>
Result<void*> BudgetedAllocator::Within(uint64_t bytes, Take&& take) {
  const uint64_t wanted_bytes = std::max<uint64_t>(bytes, 1);
  const uint64_t granules =
      wanted_bytes / granularity_bytes_ + (wanted_bytes % granularity_bytes_ != 0 ? 1 : 0);
  {
    const std::lock_guard lock(mutex_);
    const uint64_t left_bytes = budget_bytes_ - in_use_bytes_;
    if (granules > left_bytes / granularity_bytes_) {
      MemoryShortage shortage;
      shortage.device = device().ToString();
      shortage.needed_bytes = bytes;
      shortage.available_bytes = left_bytes;
      return Status::OutOfMemory(fmt::format("{}: {} bytes are asked for, {} of the budget of {} are left",
                                             shortage.device, bytes, left_bytes, budget_bytes_),
                                 shortage);
    }
    in_use_bytes_ += granules * granularity_bytes_;
  }
  Result<void*> memory = take();
  const std::lock_guard lock(mutex_);
  if (memory.ok()) {
    granted_[*memory] = granules * granularity_bytes_;
  } else {
    in_use_bytes_ -= granules * granularity_bytes_;
  }
  return memory;
}

Result<void*> BudgetedAllocator::Alloc(uint64_t bytes) {
  return Within(bytes, [&] { return memory_->Alloc(bytes); });
}

Result<void*> BudgetedAllocator::Reserve(uint64_t bytes) {
  return Within(bytes, [&] { return memory_->Reserve(bytes); });
}

Result<void*> BudgetedAllocator::AllocOnStream(uint64_t bytes, Stream& stream) {
  return Within(bytes, [&] { return memory_->AllocOnStream(bytes, stream); });
}

void BudgetedAllocator::Free(void* memory) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = granted_.find(memory); found != granted_.end()) {
      in_use_bytes_ -= found->second;
      granted_.erase(found);
    }
  }
  memory_->Free(memory);
}

AllocatorStats BudgetedAllocator::GetStats() const {
  AllocatorStats stats = memory_->GetStats();
  stats.limit_bytes = stats.limit_bytes == 0 ? budget_bytes_ : std::min(stats.limit_bytes, budget_bytes_);
  return stats;
}

}  // namespace lamina
