// Counts the heap allocations of this process (malloc and what stands on it) while asked to: kernels must not
// allocate while they compute. Sanitizer builds own malloc, so there nothing is counted.
#pragma once

#include <cstdint>

namespace lamina::testing {

// Whether this build can count.
bool CanCountAllocations();

// Counts allocations of all threads, except those that are exempt, while it lives. One at a time.
class AllocationCounter {
 public:
  AllocationCounter();
  ~AllocationCounter();
  AllocationCounter(const AllocationCounter&) = delete;
  AllocationCounter& operator=(const AllocationCounter&) = delete;
  int64_t count() const;
};

// Allocations of this thread do not count while it lives (the test's own, made on behalf of a kernel).
class AllocationExemption {
 public:
  AllocationExemption();
  ~AllocationExemption();
  AllocationExemption(const AllocationExemption&) = delete;
  AllocationExemption& operator=(const AllocationExemption&) = delete;
};

}  // namespace lamina::testing
