#include "device_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace sim {
namespace {

char* Map(uint64_t bytes, int rights, int file) {
  void* address = ::mmap(nullptr, bytes, rights, MAP_SHARED, file, 0);
  return address == MAP_FAILED ? nullptr : static_cast<char*>(address);
}

}  // namespace

DeviceMemory::DeviceMemory(std::string name, uint64_t capacity_bytes, uint64_t granularity_bytes)
    : name_(std::move(name)), capacity_bytes_(capacity_bytes), granularity_bytes_(granularity_bytes) {
  file_ = ::memfd_create("simulated device memory", MFD_CLOEXEC);
  if (file_ >= 0 && ::ftruncate(file_, static_cast<off_t>(capacity_bytes)) == 0) {
    forbidden_ = Map(capacity_bytes, PROT_NONE, file_);
    reachable_ = Map(capacity_bytes, PROT_READ | PROT_WRITE, file_);
  }
  if (!forbidden_ || !reachable_) {
    status_ = Outcome::Error(LAMINA_RESOURCE_EXHAUSTED, name_ + ": the system refuses " +
                                                            std::to_string(capacity_bytes) +
                                                            " bytes of addresses: " + std::strerror(errno));
  }
}

DeviceMemory::~DeviceMemory() {
  if (forbidden_) ::munmap(forbidden_, capacity_bytes_);
  if (reachable_) ::munmap(reachable_, capacity_bytes_);
  if (file_ >= 0) ::close(file_);
}

Outcome DeviceMemory::Alloc(uint64_t size_bytes, void** address) {
  if (!status_.ok()) return status_;
  const std::lock_guard lock(mutex_);
  const uint64_t available_bytes = capacity_bytes_ - usage_.resident_bytes;
  if (size_bytes > capacity_bytes_) {
    return Outcome::Shortage(name_ + ": " + std::to_string(size_bytes) + " bytes do not fit its " +
                                 std::to_string(capacity_bytes_),
                             size_bytes, available_bytes);
  }
  const uint64_t granules = std::max<uint64_t>((size_bytes + granularity_bytes_ - 1) / granularity_bytes_, 1);
  const uint64_t rounded_bytes = granules * granularity_bytes_;
  uint64_t offset = 0;
  for (const auto& [begin, bytes] : allocated_) {
    if (begin - offset >= rounded_bytes) break;
    offset = begin + bytes;
  }
  if (capacity_bytes_ - offset < rounded_bytes) {
    return Outcome::Shortage(name_ + ": " + std::to_string(rounded_bytes) + " bytes are asked for, " +
                                 std::to_string(available_bytes) + " of " + std::to_string(capacity_bytes_) +
                                 " are free",
                             rounded_bytes, available_bytes);
  }
  allocated_.emplace(offset, rounded_bytes);
  usage_.resident_bytes += rounded_bytes;
  usage_.peak_bytes = std::max(usage_.peak_bytes, usage_.resident_bytes);
  usage_.largest_bytes = std::max(usage_.largest_bytes, rounded_bytes);
  ++usage_.live_allocations;
  ++usage_.allocations;
  *address = forbidden_ + offset;
  return {};
}

bool DeviceMemory::Free(void* address) {
  if (!Contains(address)) return false;
  const std::lock_guard lock(mutex_);
  const auto offset = static_cast<uint64_t>(static_cast<char*>(address) - forbidden_);
  const auto found = allocated_.find(offset);
  if (found == allocated_.end()) return false;
  // The system gets the pages back; who reads the memory again finds zeros, not old data.
  ::fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>(found->second));
  usage_.resident_bytes -= found->second;
  --usage_.live_allocations;
  allocated_.erase(found);
  return true;
}

bool DeviceMemory::Contains(const void* address) const {
  const auto* bytes = static_cast<const char*>(address);
  return forbidden_ && bytes >= forbidden_ && bytes < forbidden_ + capacity_bytes_;
}

void* DeviceMemory::Reach(const void* address) const {
  return reachable_ + (static_cast<const char*>(address) - forbidden_);
}

DeviceMemory::Usage DeviceMemory::usage() const {
  const std::lock_guard lock(mutex_);
  return usage_;
}

}  // namespace sim
