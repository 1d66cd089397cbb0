#include "weights/load/staging_buffers.h"

#include <utility>

#include "base/error.h"
#include "base/os.h"

namespace lamina {

Result<std::unique_ptr<StagingBuffers>> StagingBuffers::Create(ExecutionProvider& provider,
                                                               const Device& device, const Shape& shape) {
  LAMINA_ASSIGN_OR_RETURN(std::unique_ptr<Allocator> allocator,
                          provider.CreateAllocator(device, MemoryKind::kPinned));
  std::unique_ptr<StagingBuffers> buffers(
      new StagingBuffers(*provider.data_transfer(), std::move(allocator), shape));
  for (size_t i = 0; i < kBuffers; ++i) {
    if (i == 0 || shape.stream_per_buffer) {
      LAMINA_RETURN_IF_ERROR(buffers->CreateQueue(provider, device));
    }
    LAMINA_RETURN_IF_ERROR(buffers->CreateBuffer());
  }
  return buffers;
}

Status StagingBuffers::CreateQueue(ExecutionProvider& provider, const Device& device) {
  LAMINA_ASSIGN_OR_RETURN(std::unique_ptr<Stream> stream,
                          provider.CreateStream(device, StreamPurpose::kCopy));
  if (!stream) return UnsupportedError("{} has no streams", device.ToString());
  queues_.push_back(std::make_unique<CopyQueue>());
  queues_.back()->stream = std::move(stream);
  return Status();
}

Status StagingBuffers::CreateBuffer() {
  // Allocators align to less than a page.
  const auto page = static_cast<uint64_t>(PageSizeBytes());
  LAMINA_ASSIGN_OR_RETURN(void* const memory,
                          allocator_->Alloc(shape_.slots_per_buffer * shape_.slot_bytes + page));
  buffers_.push_back(memory);
  const auto misalignment = reinterpret_cast<uintptr_t>(memory) % page;
  std::byte* const first = static_cast<std::byte*>(memory) + (misalignment ? page - misalignment : 0);
  CopyQueue& queue = *queues_.back();
  for (size_t i = 0; i < shape_.slots_per_buffer; ++i) {
    LAMINA_ASSIGN_OR_RETURN(std::unique_ptr<Notification> copied, queue.stream->CreateNotification());
    slots_.push_back({first + i * shape_.slot_bytes, &queue, std::move(copied)});
  }
  return Status();
}

StagingBuffers::~StagingBuffers() {
  static_cast<void>(Drain());
  slots_.clear();  // notifications go before their streams
  for (void* const memory : buffers_) allocator_->Free(memory);
}

Status StagingBuffers::Drain() {
  Status first_error;
  for (const auto& queue : queues_) {
    const std::lock_guard lock(queue->mutex);
    const Status status = queue->stream->Synchronize();
    if (first_error.ok()) first_error = status;
  }
  return first_error;
}

}  // namespace lamina
