// The seam to time: what measures or waits takes a Clock, so that tests decide what time it is.
#pragma once

#include <cstdint>

namespace lamina {

class Clock {
 public:
  virtual ~Clock() = default;
  // Nanoseconds since an arbitrary start; never goes back. Thread-safe.
  virtual int64_t NowNs() const = 0;
};

// The system's monotonic clock. Never destroyed.
const Clock& SystemClock();

}  // namespace lamina
