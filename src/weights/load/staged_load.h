// Loading through staging buffers: readers fill slots from files, full slots are copied to the device while
// others are filled.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "lamina/status.h"
#include "weights/load/block_reader.h"
#include "weights/load/load_job.h"
#include "weights/load/staging_buffers.h"

namespace lamina {

// For one load. Work is run by each reader's thread.
class StagedLoad {
 public:
  struct Division {
    // Readers that fill one block together, each a range of its own. With 1 a reader fills blocks alone.
    int readers_per_block = 1;
    // A block of fewer bytes is read by one reader.
    uint64_t parallel_bytes = 0;
    // The next block is begun when the last one is full.
    bool one_block_at_a_time = false;
  };

  // All referred to outlive it; nobody else uses the buffers meanwhile. Blocks of the job's schedule are no
  // larger than a slot.
  StagedLoad(LoadJob& job, StagingBuffers& buffers, BlockReader& reader, const Division& division);

  // Takes part until nothing is left to read or the load has stopped. Copies may then be under way.
  // `reader`: from 0, each given once.
  Status Work(int reader);

 private:
  // A block being read.
  struct Filling {
    const LoadBlock* block = nullptr;
    size_t slot = 0;
    uint64_t range_bytes = 0;  // of each range but the last
    uint64_t next_range = 0;
    uint64_t num_ranges = 0;
    uint64_t unread_ranges = 0;  // claimed or not
    LoadWay way = LoadWay::kBuffered;
  };
  // A range of a block's bytes, in bytes of the file.
  struct Range {
    uint64_t offset = 0;
    uint64_t size_bytes = 0;
  };

  bool SlotIsThere() const { return !free_slots_.empty() || !copying_slots_.empty(); }
  // Takes the next block and a slot for it. Nothing where no block is left. Unlocks while it waits for
  // copies. REQUIRES: SlotIsThere().
  Result<std::shared_ptr<Filling>> Open(std::unique_lock<std::mutex>& lock);
  Range TakeRange(Filling& filling);
  Status ReadRange(const Filling& filling, const Range& range, LoadWay& way);
  Status Submit(const Filling& filling);
  // Ends the load; the other readers see it when they look.
  Status Stop(Status status);

  LoadJob& job_;
  StagingBuffers& buffers_;
  BlockReader& reader_;
  const Division division_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<size_t> free_slots_;
  std::deque<size_t> copying_slots_;  // in the order in which their copies began
  std::shared_ptr<Filling> shared_;   // a block with ranges that nobody has taken
  int blocks_open_ = 0;               // being opened or filled
};

}  // namespace lamina
