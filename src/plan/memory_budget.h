// Memory as users bound it: `6GiB`, `75%` of the device, `free-512MiB`; and lists of it by device:
// `gpu:0=6GiB; gpu:1=75%`.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/status.h"
#include "provider/device_description.h"

namespace lamina {

// An amount that becomes bytes once the device is known.
class MemoryAmount {
 public:
  // A size as base/byte_size.h reads it, `N%` (N a decimal, 0 < N <= 100) of the device's memory, `free`, or
  // `free-SIZE`: what is free less SIZE. INVALID_ARGUMENT for anything else.
  static Result<MemoryAmount> Parse(std::string_view text);

  // `total_bytes` and `free_bytes` of the device. INVALID_ARGUMENT where nothing is left, or where the amount
  // is relative and the device's memory is not known.
  Result<uint64_t> Resolve(uint64_t total_bytes, uint64_t free_bytes) const;
  const std::string& text() const { return text_; }

 private:
  enum class Kind { kBytes, kPercent, kFreeLess };
  Kind kind_ = Kind::kBytes;
  uint64_t bytes_ = 0;
  double percent_ = 0;
  std::string text_;
};

// The budget of each device.
struct DeviceBudget {
  std::string designator;  // empty: every GPU
  MemoryAmount amount;
};

// `designator=amount; designator=amount`; empty entries are skipped. A bare amount is that of every GPU.
// INVALID_ARGUMENT names the entry; a designator twice is one too.
Result<std::vector<DeviceBudget>> ParseDeviceBudgets(std::string_view text);

}  // namespace lamina
