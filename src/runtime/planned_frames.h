// Planned execution of a language model: the execution buffer is laid out and allocated when the session is
// loaded, so that a run inside the bounds allocates nothing for activations and scratch.
//
// Two phases share one buffer: prefill (one sequence, up to a chunk of tokens) and decode (up to max_batch
// sequences, one token each), both with any past that the context holds.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "lamina/status.h"
#include "plan/frame_planner.h"
#include "provider/allocator.h"
#include "runtime/executable.h"
#include "runtime/executor.h"

namespace lamina {

// Names of the symbols in the model's shapes, empty where the dimension is a constant, and their bounds.
struct DecoderBounds {
  std::string batch_symbol;
  std::string sequence_symbol;
  std::string past_symbol;
  int64_t max_batch = 1;
  int64_t prefill_chunk_tokens = 1;
  int64_t context_length_tokens = 1;
};

class PlannedFrames {
 public:
  // UNSUPPORTED where a value or a workspace has no bound (frame_planner.h); RESOURCE_EXHAUSTED from the
  // allocator.
  static Result<std::unique_ptr<PlannedFrames>> Create(const Executable& executable,
                                                       const ConstantTable& constants,
                                                       const DeviceDescription& device,
                                                       const DecoderBounds& bounds, Allocator& allocator);
  ~PlannedFrames();
  PlannedFrames(const PlannedFrames&) = delete;
  PlannedFrames& operator=(const PlannedFrames&) = delete;

  int64_t size_bytes() const { return size_bytes_; }
  // Sum of the phases' peaks over the sum of their lower bounds: 1 where no layout is smaller.
  double peak_over_lower_bound() const;

  // The buffer for one run of `batch` x `tokens`; gives it back when destroyed.
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
  // Puts plan and buffer into the frame. An empty lease where the run lies outside the bounds or another run
  // has the buffer: the run then takes its memory from the arena.
  Lease Acquire(int64_t batch, int64_t tokens, Frame& frame);

 private:
  PlannedFrames(const DecoderBounds& bounds, Allocator& allocator) : bounds_(bounds), allocator_(allocator) {}

  DecoderBounds bounds_;
  Allocator& allocator_;
  FramePlan prefill_;
  FramePlan decode_;
  std::byte* memory_ = nullptr;
  int64_t size_bytes_ = 0;
  std::atomic<bool> in_use_{false};
};

}  // namespace lamina
