#include "weights/load/mapped_load.h"

#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "weights/load/block_copy.h"

namespace lamina {

Result<std::unique_ptr<MappedLoad>> MappedLoad::Create(LoadJob& job, ExecutionProvider& provider,
                                                       HostRegistration* registration, const Device& device,
                                                       uint64_t window_bytes) {
  std::unique_ptr<Stream> stream;
  if (registration) {
    LAMINA_ASSIGN_OR_RETURN(stream, provider.CreateStream(device, StreamPurpose::kCopy));
    if (!stream) return UnsupportedError("{} has no streams", device.ToString());
  }
  return std::unique_ptr<MappedLoad>(
      new MappedLoad(job, *provider.data_transfer(), registration, std::move(stream), window_bytes));
}

MappedLoad::~MappedLoad() {
  // Synchronising fails only where the device has stopped working: it reads no more then.
  if (stream_) static_cast<void>(stream_->Synchronize());
  while (!windows_.empty()) static_cast<void>(Release());
}

Status MappedLoad::Work() {
  while (!job_.stopped()) {
    const std::span<const LoadBlock> blocks = job_.Claim(window_bytes_);
    if (blocks.empty()) break;
    if (windows_.size() == kMostWindows) LAMINA_RETURN_IF_ERROR(ReleaseOldest());
    const Status status = CopyWindow(blocks);
    if (!status.ok()) return status.WithContext(InitializersOf(blocks.front(), job_.items()));
  }
  while (!windows_.empty()) LAMINA_RETURN_IF_ERROR(ReleaseOldest());
  return Status();
}

Status MappedLoad::CopyWindow(std::span<const LoadBlock> blocks) {
  const File& file = *job_.schedule().files[blocks.front().file];
  const uint64_t begin = blocks.front().offset_bytes;
  const uint64_t end = blocks.back().offset_bytes + blocks.back().size_bytes;
  Window& window = windows_.emplace_back();
  LAMINA_ASSIGN_OR_RETURN(window.bytes, file.Map(begin, end - begin));
  const Status populated = job_.Timed(LoadJob::Phase::kRead, [&] {
    Status status = window.bytes.Populate();
    if (status.ok() && registering_) TryRegister(window);
    return status;
  });
  if (!populated.ok()) return populated.WithContext(file.path());
  Stream* const stream = window.registered ? stream_.get() : nullptr;
  for (const LoadBlock& block : blocks) {
    if (job_.stopped()) return Status();
    const std::byte* bytes = window.bytes.bytes().data() + (block.offset_bytes - begin);
    LAMINA_RETURN_IF_ERROR(job_.Timed(LoadJob::Phase::kCopy, [&] {
      return CopyReadOnlyPieces(block, job_.items(), bytes, transfer_, stream);
    }));
    job_.Count(block, window.registered ? LoadWay::kMapped : LoadWay::kPageable);
  }
  if (!window.registered) return Status();
  LAMINA_ASSIGN_OR_RETURN(window.copied, stream_->CreateNotification());
  return window.copied->Record();
}

void MappedLoad::TryRegister(Window& window) {
  const Status status = registration_->Register(window.bytes.bytes(), HostAccess::kReadOnly);
  window.registered = status.ok();
  if (window.registered) return;
  LogWarning("loading weights: mapped memory is not registered ({}); it is copied at a lower rate",
             status.ToString());
  registering_ = false;
}

Status MappedLoad::ReleaseOldest() {
  Window& window = windows_.front();
  // Where waiting fails the window stays until the stream has stopped.
  if (window.copied) {
    LAMINA_RETURN_IF_ERROR(job_.Timed(LoadJob::Phase::kWait, [&] { return window.copied->WaitOnHost(); }));
  }
  return Release();
}

Status MappedLoad::Release() {
  const Window window = std::move(windows_.front());
  windows_.pop_front();
  return window.registered ? registration_->Unregister(window.bytes.bytes()) : Status();
}

}  // namespace lamina
