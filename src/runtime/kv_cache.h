// The memory of a KV cache and its binding to a run.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "lamina/session.h"
#include "plan/kv_layout.h"
#include "provider/kv_view.h"
#include "runtime/executor.h"
#include "runtime/session_devices.h"

namespace lamina {

// Buffers of one cache: for each in-place layer keys and values [slots, kv_heads, capacity, head_size]; for
// each carried state two buffers a slot. Each lies on the device that uses it, in one allocation for each
// device.
class KvCacheStorage {
 public:
  // RESOURCE_EXHAUSTED with the bytes of the cache; INVALID_ARGUMENT where sizes overflow.
  static Result<std::unique_ptr<KvCacheStorage>> Allocate(const KvLayout& layout, int slots,
                                                          int capacity_tokens, const SessionDevices& devices);
  ~KvCacheStorage();
  KvCacheStorage(const KvCacheStorage&) = delete;
  KvCacheStorage& operator=(const KvCacheStorage&) = delete;

  int slots() const { return slots_; }
  int capacity_tokens() const { return capacity_tokens_; }
  uint64_t size_bytes() const { return size_bytes_; }
  const KvLayout& layout() const { return layout_; }

  // Checks the rows (distinct slots, lengths within the capacity, one row where states are carried) and fills
  // the views of the in-place layers, valid until the next call.
  Result<std::span<const KvView>> Bind(std::span<const KvRow> rows);
  // What devices need to know of the rows that are bound: block numbers, then lengths.
  std::span<const int32_t> row_numbers() const { return rows_; }
  // Where they lie on a device; null where it has no in-place layer. Views of the device refer to it.
  int32_t* RowNumbersOn(int32_t device) const { return blocks_[static_cast<size_t>(device)].rows; }
  // Brings them to all devices, in one copy each.
  Status UploadRowNumbers() const;
  // The past tensor of carried state `index` for the row, and the memory for its present.
  Result<Tensor> CarriedPast(size_t index, const KvRow& row) const;
  Tensor CarriedPresent(size_t index, const KvRow& row) const;
  // Drops carried tokens after the first `tokens`; in-place layers need nothing.
  Status Truncate(const KvRow& row, int32_t tokens);
  bool supports_truncation() const;
  Status CopySlot(const KvRow& from, int32_t to_slot);
  // After a run: what was written as present is the past of the next.
  void SwapCarried(const KvRow& row);

 private:
  struct CarriedBuffers {
    std::byte* past = nullptr;
    std::byte* present = nullptr;
    uint64_t size_bytes = 0;
  };

  // The part of the cache on one device.
  struct Block {
    std::byte* memory = nullptr;
    uint64_t size_bytes = 0;
    int32_t* rows = nullptr;  // [2, slots]: room for block numbers and lengths; null on the host
  };

  KvCacheStorage(const KvLayout& layout, int slots, int capacity_tokens, const SessionDevices& devices)
      : layout_(layout), slots_(slots), capacity_tokens_(capacity_tokens), devices_(devices) {}
  void FillViews();
  const SessionDevice& DeviceAt(int32_t device) const { return devices_[static_cast<size_t>(device)]; }

  const KvLayout& layout_;
  int slots_;
  int capacity_tokens_;
  const SessionDevices& devices_;
  std::vector<Block> blocks_;  // by device
  uint64_t size_bytes_ = 0;
  std::vector<KvView> views_;
  std::vector<int32_t> rows_;                         // [2, rows]: block numbers, then past lengths
  std::vector<std::vector<CarriedBuffers>> carried_;  // [carried state][slot]
};

// The caches that a session hands out. Thread-safe.
class KvCachePool {
 public:
  void Add(std::unique_ptr<KvCacheStorage> cache);
  // Null where all are out.
  std::unique_ptr<KvCacheStorage> Take();
  int size() const { return size_; }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<KvCacheStorage>> free_;  // guarded by mutex_
  int size_ = 0;
};

// What a KvCache holds: a storage that goes back to its pool. `keep_alive` owns the layout and the allocator.
class KvCacheImpl {
 public:
  KvCacheImpl(std::unique_ptr<KvCacheStorage> storage, std::shared_ptr<KvCachePool> pool,
              std::shared_ptr<const void> keep_alive)
      : storage_(std::move(storage)), pool_(std::move(pool)), keep_alive_(std::move(keep_alive)) {}
  ~KvCacheImpl() { pool_->Add(std::move(storage_)); }
  KvCacheImpl(const KvCacheImpl&) = delete;
  KvCacheImpl& operator=(const KvCacheImpl&) = delete;
  KvCacheStorage& storage() { return *storage_; }

 private:
  std::unique_ptr<KvCacheStorage> storage_;
  std::shared_ptr<KvCachePool> pool_;
  std::shared_ptr<const void> keep_alive_;
};

}  // namespace lamina
