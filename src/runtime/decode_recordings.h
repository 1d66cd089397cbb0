// Decode runs of a planned session whose work on devices was recorded when the session was loaded.
//
// A run of one token for each sequence does the same as the one before but for tokens and lengths, and these
// are in device memory. So each part of it on one device is recorded once for each frame, KV cache and number
// of sequences, whose addresses it has, and later put on its stream by one launch (provider/stream.h). What
// cannot be recorded runs step by step in between (runtime/decode_outline.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "lamina/session.h"
#include "provider/stream.h"
#include "runtime/decode_outline.h"
#include "runtime/executor.h"
#include "runtime/kv_cache.h"

namespace lamina {

// Pinned memory that a recorded run copies from and to.
class StagingMemory {
 public:
  static Result<std::unique_ptr<StagingMemory>> Allocate(const SessionDevice& device, uint64_t size_bytes);
  ~StagingMemory();
  StagingMemory(const StagingMemory&) = delete;
  StagingMemory& operator=(const StagingMemory&) = delete;

  // The next part of it. REQUIRES: there is so much.
  std::byte* Take(uint64_t size_bytes);

 private:
  StagingMemory(std::unique_ptr<Allocator> allocator, std::byte* memory)
      : allocator_(std::move(allocator)), memory_(memory) {}
  std::unique_ptr<Allocator> allocator_;
  std::byte* memory_;
  uint64_t taken_bytes_ = 0;
};

// The recorded run of one frame, cache and batch. Used by one run at a time.
class DecodeRecording {
 public:
  // `values` of `frame` are the inputs of a run of this kind on the host; `run` has its KV views. The run is
  // done twice, its results mean nothing: once to load kernels and to see what it needs, then recorded.
  // UNSUPPORTED where nothing can be recorded.
  static Result<std::unique_ptr<DecodeRecording>> Record(const Executable& executable,
                                                         const DecodeOutline& outline,
                                                         const KvCacheStorage& cache, Frame& frame,
                                                         RunContext& run);

  // Whether the inputs have the shapes that were recorded and are on the host, and no output is bound to a
  // device.
  bool Fits(const RunBinding& binding) const;
  // As RunExecutable.
  Status Run(const KvCacheStorage& cache, Frame& frame, RunContext& run);
  // Puts the fetch of an output on its way to pinned memory, which is returned; undefined where the output
  // was not recorded.
  Result<Tensor> StartFetch(size_t output, const Tensor& tensor, RunContext& run) const;

 private:
  struct Part {
    std::unique_ptr<RecordedWork> work;  // null: step by step
    std::vector<std::pair<int32_t, Tensor>> results;
  };
  // An input, or the numbers of a cache's rows, on the way to its device.
  struct StagedCopy {
    int32_t value = -1;  // of the frame; -1: numbers of rows
    int32_t device = 0;
    Tensor staging;
    Tensor destination;
  };

  DecodeRecording(const Executable& executable, const DecodeOutline& outline)
      : executable_(executable), outline_(outline) {}
  void FindStagedCopies(const KvCacheStorage& cache, const Frame& frame, const RunContext& run);
  Status AllocateStaging(const Frame& frame, const RunContext& run);
  Status RunParts(Frame& frame, RunContext& run, bool records);
  Status RecordPart(size_t index, Frame& frame, RunContext& run);
  Status RunSteps(const DecodePart& part, Frame& frame, RunContext& run) const;
  void FillStaging(const KvCacheStorage& cache, Frame& frame);

  const Executable& executable_;
  const DecodeOutline& outline_;
  std::vector<std::unique_ptr<StagingMemory>> staging_;
  std::vector<StagedCopy> copies_;
  std::vector<Tensor> fetched_;  // by output of the graph: pinned memory; undefined where it is on the host
  std::vector<bool> has_begun_;  // by device, while recording
  std::vector<Part> parts_;
};

// All recordings of a session. Immutable once filled.
class DecodeRecordings {
 public:
  // Made where it is asked for the first time; recordings refer to it.
  const DecodeOutline& OutlineOf(int64_t batch, const std::function<DecodeOutline()>& make);
  void Add(size_t frame, const KvCacheStorage& cache, int64_t batch,
           std::unique_ptr<DecodeRecording> recording) {
    recordings_[{frame, &cache, batch}] = std::move(recording);
  }
  void set_why_not(std::string why_not) { why_not_ = std::move(why_not); }

  // Null where there is none.
  DecodeRecording* Find(size_t frame, const KvCacheStorage& cache, int64_t batch) const;
  // "298 of 298 steps in 1 recording": for --verbose, of one sequence.
  std::string Summary() const;

 private:
  std::map<int64_t, DecodeOutline> outlines_;  // by batch
  std::map<std::tuple<size_t, const KvCacheStorage*, int64_t>, std::unique_ptr<DecodeRecording>> recordings_;
  std::string why_not_;  // empty: all was recorded
};

}  // namespace lamina
