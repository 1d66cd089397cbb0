// What the memory of a device gives, measured.
#pragma once

#include <optional>

#include "lamina/types.h"

namespace lamina {

// A second base of execution providers that can tell.
class MemoryMeter {
 public:
  virtual ~MemoryMeter() = default;
  // Bytes a second that the device reads, or copies (read and written together), in its own memory, whichever
  // is more; takes a fraction of a second and some free memory. Nothing where it cannot be told.
  virtual std::optional<double> MeasureReadBandwidth(const Device& device) = 0;
};

}  // namespace lamina
