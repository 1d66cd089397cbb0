// Loading from mapped files: windows of a file are brought into memory, registered with the driver and copied
// by the device straight from the page cache. No CPU copies a byte; registering is what costs, and drivers
// do it one window at a time. Without registration it is the generic way of loading: the driver copies
// mapped bytes through memory of its own.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "lamina/status.h"
#include "provider/host_registration.h"
#include "provider/provider.h"
#include "weights/load/load_job.h"

namespace lamina {

// For one load, one object a thread.
class MappedLoad {
 public:
  // All referred to outlive it. `registration` is null for the generic way. A window that the driver does not
  // register goes that way too, as do all after it, with a warning in the log. REQUIRES: the provider has a
  // data transfer.
  static Result<std::unique_ptr<MappedLoad>> Create(LoadJob& job, ExecutionProvider& provider,
                                                    HostRegistration* registration, const Device& device,
                                                    uint64_t window_bytes);
  // Waits for what is under way; nothing stays registered.
  ~MappedLoad();
  MappedLoad(const MappedLoad&) = delete;
  MappedLoad& operator=(const MappedLoad&) = delete;

  // Takes part until nothing is left or the load has stopped. Its copies are done on return.
  Status Work();

 private:
  // While one window is copied the next is populated and registered.
  static constexpr size_t kMostWindows = 2;

  struct Window {
    MappedRegion bytes;
    bool registered = false;
    std::unique_ptr<Notification> copied;
  };

  MappedLoad(LoadJob& job, DataTransfer& transfer, HostRegistration* registration,
             std::unique_ptr<Stream> stream, uint64_t window_bytes)
      : job_(job),
        transfer_(transfer),
        registration_(registration),
        stream_(std::move(stream)),
        window_bytes_(window_bytes) {}
  Status CopyWindow(std::span<const LoadBlock> blocks);
  void TryRegister(Window& window);
  // Waits for the oldest window's copies.
  Status ReleaseOldest();
  // REQUIRES: the oldest window's copies are done.
  Status Release();

  LoadJob& job_;
  DataTransfer& transfer_;
  HostRegistration* registration_;  // null: windows are not registered
  std::unique_ptr<Stream> stream_;  // null then
  bool registering_ = registration_ != nullptr;
  const uint64_t window_bytes_;
  std::deque<Window> windows_;  // oldest first
};

}  // namespace lamina
