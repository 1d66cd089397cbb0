// Memory patterns of arena sessions (session.enable_mem_pattern, memory/memory_pattern.h). The first run with
// some input shapes takes its values from the arenas as they come; when the shapes come again, that run is
// traced, and from then on runs with them have one block on each device with a place for every value. A
// decode loop whose shapes never repeat pays nothing.
//
// Only for graphs in which the shapes of the inputs decide over all lifetimes: all values are tensors whose
// shapes follow from those of the inputs, and no node has a subgraph, which may hand on what it captured.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lamina/status.h"
#include "lamina/value.h"
#include "memory/memory_pattern.h"
#include "model/graph.h"
#include "provider/allocator.h"
#include "runtime/session_devices.h"

namespace lamina {

// Whether runs of the graph may use patterns.
bool CanUsePatterns(const Graph& graph);

// The blocks of one run at a time, kept for the next.
class PatternBlocks {
 public:
  // By device; must outlive the object, filled before the first Take.
  explicit PatternBlocks(const std::vector<Allocator*>& allocators) : allocators_(allocators) {}
  ~PatternBlocks();
  PatternBlocks(const PatternBlocks&) = delete;
  PatternBlocks& operator=(const PatternBlocks&) = delete;

  // At least so many bytes on the device; what was there before is lost.
  Result<std::byte*> Take(int32_t device, int64_t size_bytes);

 private:
  struct Block {
    std::byte* memory = nullptr;
    int64_t size_bytes = 0;
  };
  const std::vector<Allocator*>& allocators_;
  std::vector<Block> blocks_;  // by device
};

// What a run does with its values that have no planned place. Belongs to one run.
class RunPattern {
 public:
  // Every value from the arenas.
  RunPattern() = default;
  // The same, but recorded.
  static RunPattern Tracing(const Graph& graph);
  // Places of `patterns` in blocks of `blocks`. Where a device has no memory for its block, its values come
  // from the arena.
  static RunPattern Replaying(const Graph& graph, std::shared_ptr<const MemoryPatternGroup> patterns,
                              const SessionDevices& devices, PatternBlocks& blocks);

  bool is_tracing() const { return trace_ != nullptr; }
  // An output of the graph may outlive the run, or lie in memory of the caller: while a pattern is at work it
  // takes over no other value's memory, and on the host it comes from the arena.
  bool IsKeptApart(int32_t value) const { return graph_ && graph_->value(ValueId{value}).is_graph_output; }
  // The memory for a value of the main graph, null where it comes from the arena.
  std::byte* Find(int32_t device, int32_t value, uint64_t bytes) const;
  // Whether the memory is that of a block, which is used again when the run is over.
  bool Holds(const Tensor& tensor) const;

  // For arenas: what to call, if anything, when memory is taken and given back.
  class Trace;
  const std::shared_ptr<Trace>& trace() const { return trace_; }
  // After the run, when dead values were given back. REQUIRES: is_tracing().
  Result<MemoryPatternGroup> FinishTrace();

 private:
  struct Place {
    const MemoryPattern* pattern = nullptr;
    std::byte* memory = nullptr;
  };
  const Graph* graph_ = nullptr;
  std::shared_ptr<Trace> trace_;
  std::shared_ptr<const MemoryPatternGroup> patterns_;
  std::vector<Place> places_;  // by device
};

// Shared with the memory that is traced, which may live on after the run: then it does nothing.
class RunPattern::Trace {
 public:
  void Allocated(Device device, int32_t value, uint64_t bytes);
  void Freed(Device device, int32_t value);
  Result<MemoryPatternGroup> Finish();

 private:
  MemoryPatternTracer tracer_;
  bool finished_ = false;
};

}  // namespace lamina
