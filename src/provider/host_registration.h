// Host memory that was allocated by others, made known to a device so that it copies from it at full speed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lamina/status.h"

namespace lamina {

enum class HostAccess : uint8_t {
  kReadWrite = 0,
  kReadOnly,  // the device reads it only; the memory may be a read-only mapping of a file
};

// Thread-safe.
class HostRegistration {
 public:
  virtual ~HostRegistration() = default;
  // Whether memory can be registered for reading alone. Registering a read-only mapping otherwise would fail,
  // or make the system copy every page.
  virtual bool CanRegisterReadOnly() const = 0;
  // Pins the pages that hold `memory` for all devices of the provider. RESOURCE_EXHAUSTED where the system
  // does not pin so much; INVALID_ARGUMENT where a page is registered already.
  virtual Status Register(std::span<const std::byte> memory, HostAccess access) = 0;
  // REQUIRES: Register returned OK for the same memory, and no copy from it is under way.
  virtual Status Unregister(std::span<const std::byte> memory) = 0;
};

}  // namespace lamina
