#include "weights/load/staging_buffers.h"

#include <utility>

#include "base/os.h"

namespace lamina {

Result<std::unique_ptr<StagingBuffers>> StagingBuffers::Create(ExecutionProvider& provider,
                                                               const Device& device, const Shape& shape) {
  LAMINA_ASSIGN_OR_RETURN(std::unique_ptr<Allocator> allocator,
                          provider.CreateAllocator(device, MemoryKind::kPinned));
  std::unique_ptr<StagingBuffers> buffers(
      new StagingBuffers(*provider.data_transfer(), std::move(allocator), shape));
  for (size_t i = 0; i < kBuffers; ++i) {
    LAMINA_RETURN_IF_ERROR(buffers->CreateBuffer(provider, device));
  }
  return buffers;
}

Status StagingBuffers::CreateBuffer(ExecutionProvider& provider, const Device& device) {
  buffers_.push_back(std::make_unique<Buffer>());
  Buffer& buffer = *buffers_.back();
  LAMINA_ASSIGN_OR_RETURN(buffer.stream, provider.CreateStream(device, StreamPurpose::kCopy));
  // Allocators align to less than a page.
  const auto page = static_cast<uint64_t>(PageSizeBytes());
  LAMINA_ASSIGN_OR_RETURN(buffer.memory,
                          allocator_->Alloc(shape_.slots_per_buffer * shape_.slot_bytes + page));
  const auto misalignment = reinterpret_cast<uintptr_t>(buffer.memory) % page;
  std::byte* const first = static_cast<std::byte*>(buffer.memory) + (misalignment ? page - misalignment : 0);
  for (size_t i = 0; i < shape_.slots_per_buffer; ++i) {
    LAMINA_ASSIGN_OR_RETURN(std::unique_ptr<Notification> copied, buffer.stream->CreateNotification());
    slots_.push_back({first + i * shape_.slot_bytes, &buffer, std::move(copied)});
  }
  return Status();
}

StagingBuffers::~StagingBuffers() {
  static_cast<void>(Drain());
  slots_.clear();  // notifications go before their streams
  for (const auto& buffer : buffers_) allocator_->Free(buffer->memory);
}

Status StagingBuffers::Drain() {
  Status first_error;
  for (const auto& buffer : buffers_) {
    if (!buffer->stream) continue;
    const std::lock_guard lock(buffer->stream_mutex);
    const Status status = buffer->stream->Synchronize();
    if (first_error.ok()) first_error = status;
  }
  return first_error;
}

}  // namespace lamina
