#include "providers/cuda/cuda_memory.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/host_pages.h"
#include "base/log.h"
#include "provider/stream.h"

namespace lamina::cuda {
namespace {

// From here on pinned memory is made of huge pages; smaller pieces come from the driver.
constexpr uint64_t kLargePinnedBytes = uint64_t{1} << 20;

// The sizes of what was allocated, and statistics.
class AllocationTable {
 public:
  void Add(void* memory, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    sizes_.emplace(memory, bytes);
    ++stats_.num_allocs;
    stats_.in_use_bytes += bytes;
    stats_.total_allocated_bytes = stats_.in_use_bytes;
    stats_.max_in_use_bytes = std::max(stats_.max_in_use_bytes, stats_.in_use_bytes);
    stats_.max_alloc_size_bytes = std::max(stats_.max_alloc_size_bytes, bytes);
  }

  uint64_t Remove(void* memory) {
    const std::lock_guard lock(mutex_);
    const auto found = sizes_.find(memory);
    if (found == sizes_.end()) return 0;
    const uint64_t bytes = found->second;
    sizes_.erase(found);
    stats_.in_use_bytes -= bytes;
    stats_.total_allocated_bytes = stats_.in_use_bytes;
    return bytes;
  }

  AllocatorStats stats(uint64_t limit_bytes) const {
    const std::lock_guard lock(mutex_);
    AllocatorStats stats = stats_;
    stats.limit_bytes = limit_bytes;
    return stats;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<void*, uint64_t> sizes_;
  AllocatorStats stats_;
};

void LogFailure(const Status& status) {
  if (!status.ok()) LogWarning("{}", status.ToString());
}

class DeviceAllocator : public Allocator {
 public:
  DeviceAllocator(CudaDevice& device, std::shared_ptr<DeviceMemoryAccount> account, void* pool)
      : device_(device), account_(std::move(account)), pool_(pool) {}

  ~DeviceAllocator() override {
    if (pool_) LogFailure(device_.Call(&DeviceApi::destroy_pool, "destroying a pool", pool_));
  }

  Device device() const override { return device_.device(); }
  Result<void*> Alloc(uint64_t bytes) override { return AllocOn(bytes, /*stream=*/nullptr); }
  Result<void*> AllocOnStream(uint64_t bytes, Stream& stream) override {
    return AllocOn(bytes, stream.handle());
  }

  void Free(void* memory) override {
    if (!memory) return;
    account_->GiveBack(table_.Remove(memory));
    LogFailure(pool_ ? device_.Call(&DeviceApi::free_to_pool, "freeing", memory, nullptr)
                     : device_.Call(&DeviceApi::free, "freeing", memory));
  }

  AllocatorStats GetStats() const override { return table_.stats(account_->limit_bytes()); }

 private:
  Result<void*> AllocOn(uint64_t bytes, void* stream) {
    bytes = std::max<uint64_t>(bytes, 1);
    LAMINA_RETURN_IF_ERROR(account_->Take(bytes));
    void* memory = nullptr;
    const Status status =
        pool_ ? device_.Call(&DeviceApi::alloc_from_pool, "allocating", pool_, bytes, stream, &memory)
              : device_.Call(&DeviceApi::alloc, "allocating", bytes, &memory);
    if (!status.ok()) {
      account_->GiveBack(bytes);
      return status.code() == StatusCode::kResourceExhausted ? Shortage(bytes) : status;
    }
    // Without a stream the memory may be used by any.
    if (pool_ && !stream) {
      const Status ready = device_.Call(&DeviceApi::synchronize_stream, "allocating", nullptr);
      if (!ready.ok()) LogFailure(ready);
    }
    table_.Add(memory, bytes);
    return memory;
  }

  Status Shortage(uint64_t bytes) {
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    LogFailure(device_.Call(&DeviceApi::memory_info, "asking for free memory", &free_bytes, &total_bytes));
    const std::string name = device_.device().ToString();
    return Status::OutOfMemory(fmt::format("{}: {} asked for, {} of {} free", name, FormatByteSize(bytes),
                                           FormatByteSize(free_bytes), FormatByteSize(total_bytes)),
                               {name, bytes, free_bytes, {}});
  }

  CudaDevice& device_;
  std::shared_ptr<DeviceMemoryAccount> account_;
  void* const pool_;  // null: directly
  AllocationTable table_;
};

class PinnedAllocator : public Allocator {
 public:
  explicit PinnedAllocator(CudaDevice& device) : device_(device) {}

  Device device() const override { return device_.device(); }
  MemoryKind memory_kind() const override { return MemoryKind::kPinned; }

  Result<void*> Alloc(uint64_t bytes) override {
    bytes = std::max<uint64_t>(bytes, 1);
    void* memory = nullptr;
    if (bytes < kLargePinnedBytes) {
      LAMINA_RETURN_IF_ERROR(
          device_.Call(&DeviceApi::alloc_pinned, "allocating pinned memory", bytes, &memory));
    } else {
      LAMINA_ASSIGN_OR_RETURN(HostPages pages, HostPages::Allocate(bytes));
      memory = pages.bytes().data();
      LAMINA_RETURN_IF_ERROR(device_.Call(&DeviceApi::register_host, "pinning host memory", memory,
                                          pages.bytes().size(), /*read_only=*/0));
      const std::lock_guard lock(mutex_);
      pages_.emplace(memory, std::move(pages));
    }
    table_.Add(memory, bytes);
    return memory;
  }

  void Free(void* memory) override {
    if (!memory) return;
    table_.Remove(memory);
    HostPages pages;
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = pages_.find(memory); found != pages_.end()) {
        pages = std::move(found->second);
        pages_.erase(found);
      }
    }
    LogFailure(pages.bytes().empty()
                   ? device_.Call(&DeviceApi::free_pinned, "freeing pinned memory", memory)
                   : device_.Call(&DeviceApi::unregister_host, "unpinning host memory", memory));
  }

  AllocatorStats GetStats() const override { return table_.stats(/*limit_bytes=*/0); }

 private:
  CudaDevice& device_;
  AllocationTable table_;
  std::mutex mutex_;
  std::unordered_map<void*, HostPages> pages_;  // guarded by mutex_
};

}  // namespace

Status DeviceMemoryAccount::Take(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const uint64_t available_bytes = limit_bytes_ - std::min(limit_bytes_, held_bytes_);
  if (limit_bytes_ != 0 && bytes > available_bytes) {
    const std::string name = device_.ToString();
    return Status::OutOfMemory(
        fmt::format("{}: {} asked for, {} left of gpu_mem_limit {}", name, FormatByteSize(bytes),
                    FormatByteSize(available_bytes), FormatByteSize(limit_bytes_)),
        {name, bytes, available_bytes, {}});
  }
  held_bytes_ += bytes;
  return Status();
}

void DeviceMemoryAccount::GiveBack(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  held_bytes_ -= std::min(held_bytes_, bytes);
}

Result<std::unique_ptr<Allocator>> CreateDeviceAllocator(CudaDevice& device,
                                                         std::shared_ptr<DeviceMemoryAccount> account,
                                                         const DeviceMemoryOptions& options) {
  void* pool = nullptr;
  if (options.use_pool) {
    LAMINA_RETURN_IF_ERROR(device.Call(&DeviceApi::create_pool, "creating a memory pool",
                                       options.pool_release_threshold_bytes, &pool));
  }
  return std::unique_ptr<Allocator>(std::make_unique<DeviceAllocator>(device, std::move(account), pool));
}

std::unique_ptr<Allocator> CreatePinnedAllocator(CudaDevice& device) {
  return std::make_unique<PinnedAllocator>(device);
}

}  // namespace lamina::cuda
