#include "runtime/planned_frames.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace lamina {

Result<std::unique_ptr<PlannedFrames>> PlannedFrames::Create(PlannedGraph& planned,
                                                             const SessionDevices& devices,
                                                             const PlannedFramesOptions& options) {
  std::unique_ptr<PlannedFrames> frames(new PlannedFrames(options, devices));
  for (DeviceNeed& need : planned.needs) {
    frames->plans_.push_back({std::move(need.frames), need.execution_bytes});
  }
  for (size_t index = 0; index < frames->memory_.size(); ++index) {
    std::vector<std::byte*>& memory = frames->memory_[index];
    memory.assign(devices.size(), nullptr);
    for (size_t device = 0; device < devices.size(); ++device) {
      const uint64_t size_bytes = frames->plans_[device].size_bytes;
      if (size_bytes == 0) continue;
      Result<void*> reserved = devices[device].memory->Reserve(size_bytes);
      if (!reserved.ok()) {
        return reserved.status().WithContext("execution buffer on " + devices[device].name());
      }
      memory[device] = static_cast<std::byte*>(*reserved);
    }
    frames->free_.push_back(index);
  }
  return frames;
}

PlannedFrames::~PlannedFrames() {
  for (const std::vector<std::byte*>& memory : memory_) {
    for (size_t device = 0; device < memory.size(); ++device) devices_[device].memory->Free(memory[device]);
  }
}

int64_t PlannedFrames::size_bytes() const {
  uint64_t total_bytes = 0;
  for (const DevicePlan& plan : plans_) total_bytes += plan.size_bytes;
  return static_cast<int64_t>(total_bytes);
}

double PlannedFrames::peak_over_lower_bound() const {
  int64_t peak_bytes = 0;
  int64_t bound_bytes = 0;
  for (const DevicePlan& plan : plans_) {
    for (const FramePlan& phase : plan.phases) {
      peak_bytes += phase.peak_bytes;
      bound_bytes += phase.lower_bound_bytes;
    }
  }
  return bound_bytes == 0 ? 1.0 : static_cast<double>(peak_bytes) / static_cast<double>(bound_bytes);
}

PlannedFrames::Lease::~Lease() {
  if (frames_) frames_->Release(index_);
}

void PlannedFrames::Release(size_t index) {
  {
    const std::lock_guard lock(mutex_);
    free_.push_back(index);
  }
  released_.notify_one();
}

Result<PlannedFrames::Lease> PlannedFrames::Acquire(int64_t batch, int64_t tokens, Frame& frame) {
  constexpr size_t kPrefill = 0;  // as DecoderPhases orders them
  constexpr size_t kDecode = 1;
  const bool is_decode = tokens == 1 && batch <= options_.max_batch;
  const bool is_prefill = batch == 1 && tokens <= options_.prefill_chunk_tokens;
  if (!is_decode && !is_prefill) return Lease(nullptr, 0);
  return AcquirePhase(is_decode ? kDecode : kPrefill, frame);
}

Result<PlannedFrames::Lease> PlannedFrames::AcquirePhase(size_t phase, Frame& frame) {
  size_t index = 0;
  {
    std::unique_lock lock(mutex_);
    if (free_.empty() && options_.fail_fast) {
      return ResourceExhaustedError(
          "Concurrent Run() not allowed with pre-allocated execution buffers: {} of {} are in use "
          "(session.max_concurrent_runs)",
          memory_.size(), memory_.size());
    }
    released_.wait(lock, [&] { return !free_.empty(); });
    index = free_.back();
    free_.pop_back();
  }
  for (size_t device = 0; device < plans_.size(); ++device) {
    frame.planned.push_back({&plans_[device].phases[phase], memory_[index][device]});
  }
  return Lease(this, index);
}

}  // namespace lamina
