// Memory patterns of arena sessions (session.enable_mem_pattern): a run takes its buffers from the arena one
// by one while a tracer records them; the offsets planned from that record let every later run with the same
// input shapes take one block per device.
//
//   const MemoryPatternCache::Lookup found = cache.Find(shapes);
//   if (found.patterns) {
//     // one block of patterns->Find(device)->peak_bytes(); value v at Find(v)->offset_bytes
//   } else if (found.seen_before) {
//     MemoryPatternTracer tracer;  // tracer.Allocated / tracer.Freed during the run
//     LAMINA_ASSIGN_OR_RETURN(auto traced, tracer.Finish());
//     cache.Insert(shapes, std::move(traced));
//   }
//
// A value that asks for more than its block, or has none, comes from the arena.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lamina/status.h"
#include "lamina/types.h"

namespace lamina {

// Every block is aligned to this, as by Allocator::Alloc.
inline constexpr int64_t kPatternAlignment = 256;

// Offsets of the values on one device. Immutable.
class MemoryPattern {
 public:
  struct Block {
    int64_t offset_bytes = 0;
    int64_t size_bytes = 0;
  };

  // No allocation.
  std::optional<Block> Find(int32_t value) const;
  int64_t peak_bytes() const { return peak_bytes_; }
  int64_t lower_bound_bytes() const { return lower_bound_bytes_; }

 private:
  friend class MemoryPatternTracer;
  std::vector<std::pair<int32_t, Block>> blocks_;  // ascending by value
  int64_t peak_bytes_ = 0;
  int64_t lower_bound_bytes_ = 0;
};

// One pattern for each device that the run used.
class MemoryPatternGroup {
 public:
  const MemoryPattern* Find(Device device) const;

 private:
  friend class MemoryPatternTracer;
  std::vector<std::pair<Device, MemoryPattern>> patterns_;
};

// Records one run. Not thread-safe: belongs to one run.
class MemoryPatternTracer {
 public:
  // A value may be allocated again after it was freed (a loop's body): it keeps one block, as large as the
  // largest request, which others may use in between.
  void Allocated(Device device, int32_t value, int64_t size_bytes);
  // Values that are never freed live to the end of the run. Freeing what was not allocated has no effect.
  void Freed(Device device, int32_t value);

  // Plans by greedy orders alone: this happens during a run. Errors of PlanOffsets.
  Result<MemoryPatternGroup> Finish() const;

 private:
  struct Lifetime {
    int64_t size_bytes = 0;
    std::vector<std::pair<int64_t, int64_t>>
        live;  // half-open; the last one open-ended while it is allocated
    bool allocated = false;
  };
  struct DeviceTrace {
    Device device;
    std::unordered_map<int32_t, Lifetime> values;
  };
  DeviceTrace& TraceOf(Device device);

  std::vector<DeviceTrace> traces_;
  int64_t clock_ = 0;  // counts events
};

// Patterns by the shapes of all inputs; the least recently used goes when there are too many (a decode loop
// without a planned session has other shapes at every step). Thread-safe.
class MemoryPatternCache {
 public:
  // REQUIRES: max_entries > 0.
  explicit MemoryPatternCache(size_t max_entries = 64) : max_entries_(max_entries) {}

  struct Lookup {
    std::shared_ptr<const MemoryPatternGroup> patterns;  // null: none is known for these shapes
    bool seen_before = false;                            // they were looked for before, so a trace may pay
  };
  Lookup Find(std::span<const Shape> input_shapes);
  // Of two runs that traced the same shapes, the first one's pattern stays; returns the one that is kept.
  std::shared_ptr<const MemoryPatternGroup> Insert(std::span<const Shape> input_shapes,
                                                   MemoryPatternGroup patterns);
  size_t size() const;

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const MemoryPatternGroup> patterns;  // null: seen, not traced
  };
  Entry& At(std::string key);  // made where it is not there; the mutex is held
  const size_t max_entries_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key_;
};

}  // namespace lamina
