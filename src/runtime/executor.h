// Runs an executable: the values of one run (Frame) and the loop over its steps.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "lamina/session.h"
#include "lamina/status.h"
#include "plan/frame_planner.h"
#include "provider/allocator.h"
#include "provider/kv_view.h"
#include "runtime/executable.h"
#include "runtime/scratch_space.h"

namespace lamina {

class ThreadPool;

// The values of one run of one graph, by value index.
struct Frame {
  std::vector<Value> values;
  // Memory of the caller that an output is written to, by value index; empty where none is bound.
  std::vector<Tensor> bound;
  // Where values and workspace lie in `memory` [plan->peak_bytes]; null where the run was not planned and
  // memory comes from the arena.
  const FramePlan* plan = nullptr;
  std::byte* memory = nullptr;
};

// Memory that runs reuse one after the other, so that a warm run allocates little. One run at a time.
class RunStorage {
 public:
  explicit RunStorage(Allocator& allocator) : scratch_(allocator) {}
  ScratchSpace& scratch() { return scratch_; }
  // A frame of empty values for the executable; given back with Return.
  std::unique_ptr<Frame> Take(const Executable& executable);
  void Return(const Executable& executable, std::unique_ptr<Frame> frame);

 private:
  ScratchSpace scratch_;
  std::unordered_map<const Executable*, std::vector<std::unique_ptr<Frame>>> frames_;
};

// What all graphs of one run share.
struct RunContext {
  const RunOptions& options;
  ThreadPool& threads;
  Allocator& allocator;                    // of outputs
  std::shared_ptr<const void> keep_alive;  // owner of the allocator, held by every tensor it made
  RunStorage& storage;
  std::span<const KvView> kv_views;  // by kv layer; empty where no cache is bound
  int64_t start_ns = 0;
};

// Runs every step. Inputs and captures are in `frame`; outputs are left there.
// Errors carry the node: "node 'x' (MatMul): ...". CANCELLED between steps.
Status RunExecutable(const Executable& executable, Frame& frame, RunContext& run);

}  // namespace lamina
