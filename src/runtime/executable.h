// A graph made ready to run: kernels in execution order, and for every value when it is read last.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lamina/status.h"
#include "model/graph.h"
#include "placement/copy_schedule.h"
#include "provider/allocator.h"
#include "provider/kernel.h"
#include "provider/kernel_registry.h"
#include "runtime/device_constants.h"
#include "runtime/session_devices.h"
#include "weights/constant_table.h"

namespace lamina {

class Executable;

// Where a kernel's input comes from: a constant, or a value of the frame; neither: absent.
struct Operand {
  const Value* constant = nullptr;
  int32_t value = -1;  // index into the frame
};

struct Step {
  NodeId id;
  const Node* node = nullptr;
  const KernelCreateInfo* info = nullptr;
  std::unique_ptr<Kernel> kernel;  // null where the step is a copy
  int32_t device = 0;              // position among the session's
  int32_t copy = -1;               // of the executable's copy schedule
  // Copies that must have arrived before the step, being read here first.
  std::vector<int32_t> waits;
  std::vector<Operand> inputs;
  // The constant was absorbed by a prepacked weight and is not passed to the kernel; `packed` has it.
  std::vector<PackedWeight> packed;
  std::vector<bool> released_inputs;
  std::vector<int32_t> outputs;  // frame indices, -1 where the output is not wanted
  std::vector<int32_t> output_devices;
  std::vector<ValueType> output_types;
  // Inferred dimensions of each output for the check against the kernel's: -1 where no constant is known.
  std::vector<std::vector<int64_t>> output_dims;
  // Values of the frame that no later step reads.
  std::vector<int32_t> dead_after;
  // Bodies of If, Loop and Scan by attribute name.
  std::vector<std::pair<Name, std::unique_ptr<Executable>>> subgraphs;
  // Which cache of the session's KV layout is bound here (plan/kv_layout.h), or -1.
  int32_t kv_layer = -1;

  // Whether the value dies with this step.
  bool Dies(int32_t value) const;
};

// A value that a frame of a subgraph takes over from the frame around it.
struct CapturedValue {
  int32_t value = -1;        // in the subgraph's frame
  int32_t outer_value = -1;  // in the frame around it
};

class Executable {
 public:
  const Graph& graph() const { return *graph_; }
  std::span<const Step> steps() const { return steps_; }
  std::span<Step> mutable_steps() { return steps_; }
  int32_t num_values() const { return static_cast<int32_t>(graph_->values().size()); }
  std::span<const CapturedValue> captures() const { return captures_; }
  // For the graph's outputs: their operands (an output may be a constant or an input).
  std::span<const Operand> outputs() const { return outputs_; }
  // Of the steps; without copies where everything is on the host.
  const CopySchedule& copies() const { return copies_; }
  int32_t host() const { return host_; }
  // The device whose memory a value of the frame lies in.
  int32_t DeviceOf(ValueId value) const {
    return value_device_.empty() ? host_ : value_device_[static_cast<size_t>(value.index)];
  }

 private:
  friend class ExecutableBuilder;
  const Graph* graph_ = nullptr;
  int32_t host_ = 0;
  std::vector<int32_t> value_device_;  // by value; empty: the host for all
  CopySchedule copies_;
  std::vector<Step> steps_;
  std::vector<CapturedValue> captures_;
  std::vector<Operand> outputs_;
};

// How constants are stored for kernels.
class PrepackedWeights {
 public:
  uint64_t total_bytes() const { return total_bytes_; }

 private:
  friend class ExecutableBuilder;
  std::vector<std::shared_ptr<void>> buffers_;
  uint64_t total_bytes_ = 0;
};

struct ExecutableOptions {
  const SessionDevices* devices = nullptr;
  // Where the nodes and values of the main graph are; null: all on the host.
  const PlacedGraph* placed = nullptr;
  ThreadPool* threads = nullptr;
  ConstantTable* constants = nullptr;  // loses what only packed weights are made of
  DeviceConstants* device_constants = nullptr;
  SymbolBounds symbols;
  bool prepack = true;
  // Called as weights are packed or brought to a device, with the bytes of their originals.
  std::function<Status(uint64_t weight_bytes)> on_prepacked;
};

// "node 'name' (Operator)": how messages name a node.
std::string NodeLabel(const Node& node);

// Makes the kernels of `graph` and its subgraphs, and packs their weights into `prepacked`. The graph and the
// objects named by `options` must outlive the result. UNSUPPORTED names the node that has no kernel.
Result<std::unique_ptr<Executable>> BuildExecutable(const Graph& graph, const ExecutableOptions& options,
                                                    PrepackedWeights& prepacked);

}  // namespace lamina
