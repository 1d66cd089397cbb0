// Runs an executable: the values of one run (Frame) and the loop over its steps.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lamina/session.h"
#include "lamina/status.h"
#include "plan/frame_planner.h"
#include "provider/allocator.h"
#include "provider/kv_view.h"
#include "runtime/executable.h"
#include "runtime/run_pattern.h"
#include "runtime/run_queues.h"
#include "runtime/scratch_space.h"
#include "runtime/session_devices.h"

namespace lamina {

class DecodeRecording;
class NodeStatsRecorder;
class ThreadPool;

// Where values and workspace lie in the execution buffer of one device.
struct PlannedMemory {
  const FramePlan* plan = nullptr;
  std::byte* memory = nullptr;  // [plan->peak_bytes]
};

// The values of one run of one graph, by value index.
struct Frame {
  std::vector<Value> values;
  // Memory of the caller that an output is written to, by value index; empty where none is bound. It counts
  // where it is on the device that makes the output.
  std::vector<Tensor> bound;
  // By device; empty where the run was not planned and memory comes from the arenas.
  std::vector<PlannedMemory> planned;
  // Of a run of the main graph that was not planned.
  RunPattern pattern;
};

// Memory that runs reuse one after the other, so that a warm run allocates little. One run at a time, with
// arenas of its own on devices: what it frees there while kernels are still under way is used again on its
// own streams only.
class RunStorage {
 public:
  // `devices` must outlive the object.
  explicit RunStorage(const SessionDevices& devices);
  ScratchSpace& scratch(int32_t device) { return scratch_[static_cast<size_t>(device)]; }
  // For values that are not planned. On the host straight from its memory: results outlive the run.
  Allocator& activations(int32_t device) { return *activations_[static_cast<size_t>(device)]; }
  PatternBlocks& pattern_blocks() { return pattern_blocks_; }
  // Streams for the copies; `executable` must outlive the object. Null where everything is on the host.
  Result<RunQueues*> Queues(const SessionDevices& devices, const Executable& executable);
  // A frame of empty values for the executable; given back with Return.
  std::unique_ptr<Frame> Take(const Executable& executable);
  void Return(const Executable& executable, std::unique_ptr<Frame> frame);

 private:
  std::vector<std::unique_ptr<Allocator>> arenas_;
  std::vector<Allocator*> activations_;  // by device
  PatternBlocks pattern_blocks_;
  std::deque<ScratchSpace> scratch_;  // by device
  std::unique_ptr<RunQueues> queues_;
  std::unordered_map<const Executable*, std::vector<std::unique_ptr<Frame>>> frames_;
};

// What all graphs of one run share.
struct RunContext {
  const RunOptions& options;
  ThreadPool& threads;
  const SessionDevices& devices;
  std::shared_ptr<const void> keep_alive;  // owner of the devices, held by every tensor in their memory
  RunStorage& storage;
  RunQueues* queues = nullptr;       // null where everything is on the host
  std::span<const KvView> kv_views;  // by kv layer; empty where no cache is bound
  int64_t start_ns = 0;
  NodeStatsRecorder* node_stats = nullptr;  // null: nothing is collected
  DecodeRecording* recording = nullptr;     // null: launched step by step
  // Outputs in pinned memory, and where they go when the run is over.
  std::vector<std::pair<Tensor, Tensor>> staged_outputs;
  // Work on devices is being recorded: what it waits for was waited for before.
  bool is_recording = false;
  // Set where a value or scratch came from an arena, at an address that the next run may not have.
  bool used_arena = false;
};

// Runs every step. Inputs and captures are in `frame`, those that lie on a device still where the caller has
// them; outputs are left there, on their devices. Kernels on devices may still run on return (RunQueues).
// Errors carry the node: "node 'x' (MatMul): ...", and the device where it is not the host. CANCELLED between
// steps.
Status RunExecutable(const Executable& executable, Frame& frame, RunContext& run);

// What RunExecutable does, piece by piece: starts to bring an input, copy `upload` of the schedule, to its
// device; runs one step.
Status StartUpload(const Executable& executable, size_t upload, Frame& frame, RunContext& run);
Status RunStep(const Executable& executable, const Step& step, Frame& frame, RunContext& run);

}  // namespace lamina
