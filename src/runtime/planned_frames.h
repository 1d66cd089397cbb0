// Planned execution of a language model: the execution buffer is laid out and allocated when the session is
// loaded, so that a run inside the bounds allocates nothing for activations and scratch.
//
// Each device has one buffer, which two phases share: prefill (one sequence, up to a chunk of tokens) and
// decode (up to max_batch sequences, one token each), both with any past that the context holds.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "lamina/status.h"
#include "plan/frame_planner.h"
#include "plan/phases.h"
#include "runtime/executable.h"
#include "runtime/executor.h"
#include "runtime/session_devices.h"

namespace lamina {

class PlannedFrames {
 public:
  // UNSUPPORTED where a value or a workspace has no bound (frame_planner.h); RESOURCE_EXHAUSTED from the
  // allocator.
  // `in_cache`: inputs and outputs of the graph whose memory is a KV cache's. `devices` must outlive the
  // object.
  static Result<std::unique_ptr<PlannedFrames>> Create(const Executable& executable,
                                                       const ConstantTable& constants,
                                                       const SessionDevices& devices,
                                                       const DecoderBounds& bounds,
                                                       const std::function<bool(ValueId)>& in_cache);
  ~PlannedFrames();
  PlannedFrames(const PlannedFrames&) = delete;
  PlannedFrames& operator=(const PlannedFrames&) = delete;

  // Of all devices.
  int64_t size_bytes() const;
  int64_t size_bytes(int32_t device) const { return frames_[static_cast<size_t>(device)].size_bytes; }
  // Sum of the phases' peaks over the sum of their lower bounds: 1 where no layout is smaller.
  double peak_over_lower_bound() const;

  // The buffers for one run of `batch` x `tokens`; gives it back when destroyed.
  class Lease {
   public:
    explicit Lease(PlannedFrames* frames) : frames_(frames) {}
    ~Lease();
    Lease(Lease&& other) noexcept : frames_(other.frames_) { other.frames_ = nullptr; }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Lease& operator=(Lease&&) = delete;
    explicit operator bool() const { return frames_ != nullptr; }

   private:
    PlannedFrames* frames_;
  };
  // Puts plans and buffers into the frame. An empty lease where the run lies outside the bounds or another
  // run has them: the run then takes its memory from the arena.
  Lease Acquire(int64_t batch, int64_t tokens, Frame& frame);

 private:
  struct DeviceFrame {
    FramePlan prefill;
    FramePlan decode;
    std::byte* memory = nullptr;
    int64_t size_bytes = 0;
  };
  PlannedFrames(const DecoderBounds& bounds, const SessionDevices& devices)
      : bounds_(bounds), devices_(devices), frames_(devices.size()) {}

  DecoderBounds bounds_;
  const SessionDevices& devices_;
  std::vector<DeviceFrame> frames_;  // by device
  std::atomic<bool> in_use_{false};
};

}  // namespace lamina
