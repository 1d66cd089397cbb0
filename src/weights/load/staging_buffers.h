// Two pinned host buffers through which blocks go to a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "lamina/status.h"
#include "provider/provider.h"

namespace lamina {

// Kept for as long as the loader lives. A buffer is divided into slots, each for one block at a time. A slot
// is used by one thread at a time; different slots by different threads.
class StagingBuffers {
 public:
  struct Shape {
    size_t slots_per_buffer = 1;
    uint64_t slot_bytes = 0;  // a multiple of the page size
    // A stream for each buffer, else one for both. A device has one engine for this direction: changing
    // streams gains nothing and costs some microseconds a copy.
    bool stream_per_buffer = true;
  };
  static constexpr size_t kBuffers = 2;

  // Errors: those of the provider; nothing is left of what was made before. REQUIRES: the provider has a data
  // transfer and outlives the buffers.
  static Result<std::unique_ptr<StagingBuffers>> Create(ExecutionProvider& provider, const Device& device,
                                                        const Shape& shape);
  // Waits for what is under way.
  ~StagingBuffers();
  StagingBuffers(const StagingBuffers&) = delete;
  StagingBuffers& operator=(const StagingBuffers&) = delete;

  size_t num_slots() const { return slots_.size(); }
  uint64_t slot_bytes() const { return shape_.slot_bytes; }
  // Aligned to a page.
  std::byte* memory(size_t slot) const { return slots_[slot].memory; }
  DataTransfer& transfer() const { return transfer_; }

  // Calls put_copies(stream) for copies out of the slot and marks their end. Others with the same stream wait
  // meanwhile.
  template <typename PutCopies>
  Status Submit(size_t slot, PutCopies put_copies) {
    Slot& used = slots_[slot];
    const std::lock_guard lock(used.queue->mutex);
    LAMINA_RETURN_IF_ERROR(put_copies(*used.queue->stream));
    return used.copied->Record();
  }
  // Returns when the copies of the last Submit are done. REQUIRES: there was one.
  Status WaitUntilCopied(size_t slot) { return slots_[slot].copied->WaitOnHost(); }
  // Waits for every stream, whatever their outcome; the first error.
  Status Drain();

 private:
  struct CopyQueue {
    std::unique_ptr<Stream> stream;
    std::mutex mutex;  // a stream is used by one thread at a time
  };
  struct Slot {
    std::byte* memory = nullptr;
    CopyQueue* queue = nullptr;
    std::unique_ptr<Notification> copied;
  };

  StagingBuffers(DataTransfer& transfer, std::unique_ptr<Allocator> allocator, const Shape& shape)
      : transfer_(transfer), allocator_(std::move(allocator)), shape_(shape) {}
  Status CreateQueue(ExecutionProvider& provider, const Device& device);
  Status CreateBuffer();

  DataTransfer& transfer_;
  std::unique_ptr<Allocator> allocator_;
  Shape shape_;
  std::vector<std::unique_ptr<CopyQueue>> queues_;
  std::vector<void*> buffers_;
  std::vector<Slot> slots_;
};

}  // namespace lamina
