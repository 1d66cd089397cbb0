// Whole pages of host memory, large ones where the system has them: quicker to make and to pin than many
// small ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lamina/status.h"

namespace lamina {

// Aligned to 2 MiB, zero, present in memory (no page faults later). Given back when destroyed.
class HostPages {
 public:
  // RESOURCE_EXHAUSTED where the system gives no such memory. REQUIRES: size_bytes > 0.
  static Result<HostPages> Allocate(uint64_t size_bytes);
  HostPages() = default;
  ~HostPages();
  HostPages(HostPages&& other) noexcept;
  HostPages& operator=(HostPages&& other) noexcept;

  // At least as many as were asked for.
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

}  // namespace lamina
