// The memory of a simulated device: addresses that host code cannot touch, with a hard capacity.
//
// The memory is mapped twice. The addresses that the host gets are in a mapping without any rights: reading
// or writing them faults, whatever thread does it. The device's own kernels and copies use the other mapping,
// at a fixed distance. No rights are ever changed, so that there is no moment at which a mistake goes
// unnoticed.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "outcome.h"

namespace sim {

// Thread-safe.
class DeviceMemory {
 public:
  // `name` is used in messages. Sizes are checked by ParseOptions.
  DeviceMemory(std::string name, uint64_t capacity_bytes, uint64_t granularity_bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // The reason where the system refused the mappings; nothing can be allocated then.
  const Outcome& status() const { return status_; }

  // First fit, in multiples of the granularity. RESOURCE_EXHAUSTED.
  Outcome Alloc(uint64_t size_bytes, void** address);
  // False where nothing was allocated at the address.
  bool Free(void* address);

  // Whether the address is one of this memory, allocated or not.
  bool Contains(const void* address) const;
  // Where kernels and copies reach the bytes at `address`. REQUIRES: Contains.
  void* Reach(const void* address) const;

  struct Usage {
    uint64_t resident_bytes = 0;
    uint64_t peak_bytes = 0;
    uint64_t largest_bytes = 0;
    uint64_t live_allocations = 0;
    uint64_t allocations = 0;
  };
  Usage usage() const;
  uint64_t capacity_bytes() const { return capacity_bytes_; }
  uint64_t granularity_bytes() const { return granularity_bytes_; }

 private:
  const std::string name_;
  const uint64_t capacity_bytes_;
  const uint64_t granularity_bytes_;
  Outcome status_;
  int file_ = -1;              // anonymous, in memory
  char* forbidden_ = nullptr;  // what the host sees
  char* reachable_ = nullptr;
  mutable std::mutex mutex_;
  std::map<uint64_t, uint64_t> allocated_;  // offset -> bytes
  Usage usage_;
};

}  // namespace sim
