// Queues of work on a device, and points in them that others wait for.
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
};

}  // namespace lamina
