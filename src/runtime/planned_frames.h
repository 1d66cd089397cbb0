// Execution buffers of a planned session: laid out by the plan, allocated when the session is loaded, so that
// a run inside the bounds allocates nothing for activations and scratch.
//
// A frame is one buffer on each device; the phases of a language model (prefill and decode) share it. There
// are as many frames as runs may happen at the same time.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "lamina/status.h"
#include "plan/make_plan.h"
#include "runtime/executor.h"
#include "runtime/session_devices.h"

namespace lamina {

struct PlannedFramesOptions {
  int frames = 1;          // session.max_concurrent_runs
  bool fail_fast = false;  // session.pre_allocate_execution_buffers: one run too many fails, else it waits
  int64_t max_batch = 1;   // of a language model
  int64_t prefill_chunk_tokens = 1;
};

// Thread-safe.
class PlannedFrames {
 public:
  // Takes over the layouts of `planned`. `devices` must outlive the object. RESOURCE_EXHAUSTED from the
  // allocators.
  static Result<std::unique_ptr<PlannedFrames>> Create(PlannedGraph& planned, const SessionDevices& devices,
                                                       const PlannedFramesOptions& options);
  ~PlannedFrames();
  PlannedFrames(const PlannedFrames&) = delete;
  PlannedFrames& operator=(const PlannedFrames&) = delete;

  // Of one frame on all devices.
  int64_t size_bytes() const;
  // Sum of the phases' peaks over the sum of their lower bounds: 1 where no layout is smaller.
  double peak_over_lower_bound() const;

  // The buffers for one run; gives them back when destroyed.
  class Lease {
   public:
    Lease(PlannedFrames* frames, size_t index) : frames_(frames), index_(index) {}
    ~Lease();
    Lease(Lease&& other) noexcept : frames_(std::exchange(other.frames_, nullptr)), index_(other.index_) {}
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Lease& operator=(Lease&&) = delete;
    explicit operator bool() const { return frames_ != nullptr; }
    size_t index() const { return index_; }  // of the frame

   private:
    PlannedFrames* frames_;
    size_t index_;
  };
  // Of a language model: puts plans and buffers into `frame`. An empty lease where the run lies outside the
  // bounds: it then takes its memory from the arena. Where all frames are in use: waits, or
  // RESOURCE_EXHAUSTED with fail_fast.
  Result<Lease> Acquire(int64_t batch, int64_t tokens, Frame& frame);
  // The same for a model with one phase.
  Result<Lease> Acquire(Frame& frame) { return AcquirePhase(0, frame); }

 private:
  struct DevicePlan {
    std::vector<FramePlan> phases;
    uint64_t size_bytes = 0;
  };
  PlannedFrames(const PlannedFramesOptions& options, const SessionDevices& devices)
      : options_(options), devices_(devices), memory_(static_cast<size_t>(options.frames)) {}
  Result<Lease> AcquirePhase(size_t phase, Frame& frame);
  void Release(size_t index);

  const PlannedFramesOptions options_;
  const SessionDevices& devices_;
  std::vector<DevicePlan> plans_;                // by device
  std::vector<std::vector<std::byte*>> memory_;  // by frame, then by device
  std::mutex mutex_;
  std::condition_variable released_;
  std::vector<size_t> free_;  // frames; guarded by mutex_
};

}  // namespace lamina
