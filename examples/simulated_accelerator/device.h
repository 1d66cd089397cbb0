// A simulated device: memory, an engine for kernels, an engine for copies, counters, failures on demand.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "device_memory.h"
#include "options.h"
#include "queue.h"
#include "simulated_accelerator.h"

namespace sim {

// Thread-safe.
class Device {
 public:
  Device(int32_t index, const Options& options);

  int32_t index() const { return index_; }
  const std::string& name() const { return name_; }  // "sim:0"
  DeviceMemory& memory() { return memory_; }
  Queue& queue(LaminaStreamPurpose purpose) {
    return purpose == LAMINA_STREAM_COPY ? copy_queue_ : compute_queue_;
  }

  Outcome Alloc(uint64_t size_bytes, void** address);
  void Free(void* address);

  // On the calling thread, as slowly as the link allows. Addresses are reachable ones.
  enum class Direction { kFromHost, kToHost, kBetweenDevices };
  Outcome Copy(Direction direction, void* destination, const void* source, uint64_t size_bytes);
  // Runs `kernel` on the calling thread.
  Outcome RunKernel(const std::string& what, const std::function<Outcome()>& kernel);

  // Counts work from when it is put on a queue until it is done.
  void WorkBegins();
  void WorkEnds();
  void StreamMade(int change);
  void RunMade(int change);

  void Inject(SimFailure failure, uint64_t nth);
  // OK, or that the device is lost.
  Outcome Alive() const;
  SimCounters counters() const;

 private:
  // Counts down to an injected failure; true when it is due.
  bool Due(SimFailure failure);

  const int32_t index_;
  const std::string name_;
  const double link_bandwidth_bytes_per_s_;
  const uint64_t latency_us_;
  DeviceMemory memory_;
  mutable std::mutex mutex_;
  SimCounters counters_{};      // what memory_ does not count
  uint64_t countdown_[5] = {};  // by SimFailure; 0: none
  bool lost_ = false;
  // Last, so that what is left on them finds the rest alive.
  Queue compute_queue_;
  Queue copy_queue_;
};

}  // namespace sim
