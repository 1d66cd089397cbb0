// Queues of work on a device, points in them that others wait for, and work that is recorded to be done
// again.
#pragma once

#include <cstdint>
#include <memory>

#include "lamina/status.h"
#include "lamina/types.h"

namespace lamina {

class Stream;

// A point in a stream. Made once, recorded again and again.
class Notification {
 public:
  virtual ~Notification() = default;
  // Marks the work that is on the notification's stream now.
  virtual Status Record() = 0;
  // Work put on `consumer` from now on begins after what was marked; the host does not wait. The consumer may
  // be a stream of another device of the same provider.
  virtual Status WaitOnStream(Stream& consumer) = 0;
  // Returns when what was marked is done, with the first error of that work.
  virtual Status WaitOnHost() = 0;
};

// Work that was recorded on a stream (Stream::BeginRecording): one launch does all of it, with the addresses
// and numbers that it was recorded with, on what is in memory then.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  // Puts it on a stream of the device that it was recorded on. REQUIRES: what earlier launches put on other
  // streams is done.
  virtual Status Launch(Stream& stream) = 0;
};

// What a stream is for: a device with engines of their own for copies runs both kinds at the same time.
enum class StreamPurpose : uint8_t { kCompute = 0, kCopy };

// Work is done in the order it was put on the stream. Used by one thread at a time.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual Device device() const = 0;
  // What kernels get as KernelContext::stream(): the provider's own handle (a cudaStream_t).
  virtual void* handle() const = 0;
  // Work that was put here may begin: nothing is held back for a later batch.
  virtual Status Flush() = 0;
  // Waits for everything on the stream. Returns the first error of that work; DEVICE_LOST where the device is
  // gone. A stream that returned another error is usable again.
  virtual Status Synchronize() = 0;
  virtual Result<std::unique_ptr<Notification>> CreateNotification() = 0;

  // From here to EndRecording work that this thread puts on the stream is not done but kept. UNSUPPORTED
  // where the provider cannot.
  virtual Status BeginRecording();
  // What was kept; called too where putting the work there failed. Errors where some of it cannot be
  // recorded: the stream is then as it was before.
  virtual Result<std::unique_ptr<RecordedWork>> EndRecording();
};

}  // namespace lamina
