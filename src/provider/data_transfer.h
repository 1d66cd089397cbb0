// Copies between the host and the devices of a provider, and between its devices.
#pragma once

#include <cstdint>

#include "lamina/status.h"
#include "lamina/types.h"
#include "provider/stream.h"

namespace lamina {

// Bytes to copy from one device's memory to another's. Ranges do not overlap.
struct MemoryCopy {
  const void* source = nullptr;
  Device source_device;
  void* destination = nullptr;
  Device destination_device;
  uint64_t size_bytes = 0;
};

// Thread-safe.
class DataTransfer {
 public:
  virtual ~DataTransfer() = default;
  virtual bool CanCopy(const Device& source, const Device& destination) const = 0;
  // With a stream (of either device) the copy is put on it: source and destination stay valid and untouched
  // until it is done. Host memory may be pageable; only pinned memory is sure to be copied while the host
  // goes on. Without a stream the copy is done on return. REQUIRES: CanCopy.
  virtual Status CopyAsync(const MemoryCopy& copy, Stream* stream) = 0;
};

}  // namespace lamina
