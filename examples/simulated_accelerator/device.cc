#include "device.h"

#include <chrono>
#include <cstring>
#include <thread>

namespace sim {

Device::Device(int32_t index, const Options& options)
    : index_(index),
      name_("sim:" + std::to_string(index)),
      link_bandwidth_bytes_per_s_(options.link_bandwidth_bytes_per_s),
      latency_us_(options.latency_us),
      memory_(name_, options.memory_bytes, options.granularity_bytes) {}

bool Device::Due(SimFailure failure) {
  uint64_t& countdown = countdown_[failure];
  return countdown > 0 && --countdown == 0;
}

Outcome Device::Alive() const {
  const std::lock_guard lock(mutex_);
  return lost_ ? Outcome::Error(LAMINA_DEVICE_LOST, name_ + " is lost") : Outcome();
}

Outcome Device::Alloc(uint64_t size_bytes, void** address) {
  const Outcome alive = Alive();
  if (!alive.ok()) return alive;
  bool fail = false;
  {
    const std::lock_guard lock(mutex_);
    fail = Due(SIM_FAIL_ALLOCATION);
  }
  if (!fail) return memory_.Alloc(size_bytes, address);
  const uint64_t free_bytes = memory_.capacity_bytes() - memory_.usage().resident_bytes;
  return Outcome::Shortage(
      name_ + ": the allocation of " + std::to_string(size_bytes) + " bytes fails on demand",
      size_bytes == 0 ? 1 : size_bytes, free_bytes);
}

void Device::Free(void* address) {
  if (address) memory_.Free(address);
}

Outcome Device::Copy(Direction direction, void* destination, const void* source, uint64_t size_bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (Due(SIM_LOSE_AT_COPY)) lost_ = true;
    if (lost_) return Outcome::Error(LAMINA_DEVICE_LOST, name_ + " is lost");
    if (Due(SIM_FAIL_COPY)) return Outcome::Error(LAMINA_IO, name_ + ": the copy fails on demand");
  }
  const auto begin = std::chrono::steady_clock::now();
  if (size_bytes > 0) std::memcpy(destination, source, size_bytes);
  auto duration = std::chrono::duration<double>(static_cast<double>(latency_us_) * 1e-6);
  if (link_bandwidth_bytes_per_s_ > 0) {
    duration += std::chrono::duration<double>(static_cast<double>(size_bytes) / link_bandwidth_bytes_per_s_);
  }
  if (duration.count() > 0) {
    std::this_thread::sleep_until(begin + std::chrono::duration_cast<std::chrono::nanoseconds>(duration));
  }
  const std::lock_guard lock(mutex_);
  switch (direction) {
    case Direction::kFromHost:
      ++counters_.copies_from_host;
      counters_.bytes_from_host += size_bytes;
      break;
    case Direction::kToHost:
      ++counters_.copies_to_host;
      counters_.bytes_to_host += size_bytes;
      break;
    case Direction::kBetweenDevices:
      ++counters_.copies_between_devices;
      counters_.bytes_between_devices += size_bytes;
      break;
  }
  return {};
}

Outcome Device::RunKernel(const std::string& what, const std::function<Outcome()>& kernel) {
  {
    const std::lock_guard lock(mutex_);
    if (Due(SIM_LOSE_AT_KERNEL)) lost_ = true;
    if (lost_) return Outcome::Error(LAMINA_DEVICE_LOST, name_ + " is lost");
    if (Due(SIM_FAIL_KERNEL)) {
      return Outcome::Error(LAMINA_INTERNAL, name_ + ": the kernel of " + what + " fails on demand");
    }
    ++counters_.kernels;
  }
  return kernel();
}

void Device::WorkBegins() {
  const std::lock_guard lock(mutex_);
  ++counters_.in_flight;
}

void Device::WorkEnds() {
  const std::lock_guard lock(mutex_);
  --counters_.in_flight;
}

void Device::StreamMade(int change) {
  const std::lock_guard lock(mutex_);
  counters_.live_streams += static_cast<uint64_t>(static_cast<int64_t>(change));
}

void Device::RunMade(int change) {
  const std::lock_guard lock(mutex_);
  counters_.runs += static_cast<uint64_t>(static_cast<int64_t>(change));
}

void Device::Inject(SimFailure failure, uint64_t nth) {
  const std::lock_guard lock(mutex_);
  countdown_[failure] = nth;
}

SimCounters Device::counters() const {
  const DeviceMemory::Usage usage = memory_.usage();
  const std::lock_guard lock(mutex_);
  SimCounters counters = counters_;
  counters.resident_bytes = usage.resident_bytes;
  counters.peak_bytes = usage.peak_bytes;
  counters.live_allocations = usage.live_allocations;
  counters.allocations = usage.allocations;
  return counters;
}

}  // namespace sim
