// The plan of a session: what lives where, at which size, and why. A value: it owns everything it says, is a
// function of graph, options and device descriptions alone, and is the same to the byte wherever it is made.
//
// All sizes are bytes. Devices are named by their designators ("gpu:0", "cpu"). On every device
//
//   total     = weights + kv_cache + execution + slots
//   execution = activations + workspace + staging, the shares of the buffer at its fullest step
//   allocated = the device's blocks (weights, each KV cache, each execution frame, slots), each rounded up to
//               the device's granularity: what a session takes from the device, and what a budget bounds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lamina {

// Where a figure of workspace comes from.
enum class EstimateSource : uint8_t {
  kExact,      // declared by the kernel for shapes that are fixed
  kBound,      // declared as the largest over the bounds of the shapes
  kDeclared,   // declared without shapes: they have no bound, the figure does not depend on them
  kHeuristic,  // nothing was declared: half of the node's outputs and initializers
};
// "exact", "bound", "declared", "heuristic".
std::string_view EstimateSourceName(EstimateSource source);

enum class Residency : uint8_t {
  kResident,  // in the memory of an accelerator
  kHost,      // in host memory: mapped from its file, or packed
  kStreamed,  // in host memory, copied to the accelerator when it is used
};
std::string_view ResidencyName(Residency residency);

// A buffer of an execution frame: a rectangle of steps and bytes.
struct PlanBuffer {
  enum class Kind : uint8_t { kActivation, kWorkspace, kStaging };
  std::string name;  // of the value, or "node 'x' slot 0"
  Kind kind = Kind::kActivation;
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
  int64_t first_step = 0;  // of execution order
  int64_t last_step = 0;   // inclusive
};

struct Plan {
  struct Slot {
    std::string name;
    uint64_t bytes = 0;
  };
  struct DeviceMemory {
    std::string name;
    std::string provider;
    std::string description;  // the device's own name, or its preset's
    // Nothing: the device has no budget (the host).
    std::optional<uint64_t> budget_bytes;
    std::string budget_text;  // as the user wrote it ("75%"); empty: the memory that is there
    uint64_t weights_bytes = 0;
    uint64_t kv_cache_bytes = 0;
    uint64_t execution_bytes = 0;
    uint64_t activations_bytes = 0;
    uint64_t workspace_bytes = 0;
    uint64_t staging_bytes = 0;
    std::vector<Slot> slots;  // for weights that are streamed
    uint64_t total_bytes = 0;
    uint64_t granularity_bytes = 1;
    uint64_t allocated_bytes = 0;
    bool is_bounded_by_user = false;  // the budget was given, and bounds all that the session allocates
    // Of the host alone: weights that stay mapped from their files, memory of its own (packed weights, KV
    // cache, execution), and beside these the pinned memory from which weights are loaded to devices.
    uint64_t mapped_bytes = 0;
    uint64_t private_bytes = 0;
    uint64_t pinned_bytes = 0;
    uint64_t memory_bytes = 0;  // of the device or machine; 0: not known
  };
  struct Layer {
    std::string name;
    std::string device;
    uint64_t bytes = 0;  // weights and KV cache
    std::string reason;
  };
  struct Weight {
    std::string name;
    Residency residency = Residency::kHost;
    std::string device;
    uint64_t bytes = 0;
  };
  struct CutEdge {
    std::string value;
    std::string from;
    std::string to;
    uint64_t bytes_per_step = 0;  // at most, in a decode step (in a run, of other models)
  };
  struct Fallback {
    std::string node;
    std::string provider;  // the one that cannot run it
    std::string reason;
  };
  struct Rule {
    std::string text;
    uint64_t nodes = 0;
    std::string note;
  };
  struct PhaseLayout {
    std::string device;
    std::string phase;  // "prefill", "decode", "run"
    uint64_t peak_bytes = 0;
    uint64_t lower_bound_bytes = 0;
    std::vector<PlanBuffer> buffers;  // not part of the JSON
    double ratio() const {
      return lower_bound_bytes == 0
                 ? 1.0
                 : static_cast<double>(peak_bytes) / static_cast<double>(lower_bound_bytes);
    }
  };
  struct Estimate {
    std::string node;
    EstimateSource source = EstimateSource::kExact;
    uint64_t bytes = 0;
  };
  struct Bounds {
    int64_t context_tokens = 0;
    int64_t batch = 1;
    int64_t prefill_chunk_tokens = 0;
  };
  struct Unplaced {
    std::string name;
    uint64_t bytes = 0;  // that the device would need more to hold it
  };
  // What one more step of memory would hold.
  struct Outlook {
    uint64_t budget_bytes = 0;
    uint64_t resident_bytes = 0;  // weights and KV cache on accelerators
    int resident_layers = 0;
  };

  std::vector<DeviceMemory> devices;  // accelerators in their order, the host last
  std::vector<Layer> layers;
  std::string layers_from;  // how layers were found (placement/layers.h)
  std::vector<Weight> weights;
  std::vector<CutEdge> cut_edges;
  std::vector<Fallback> fallbacks;
  std::vector<Rule> rules;
  std::vector<PhaseLayout> offsets;
  Bounds bounds;
  int frames = 1;        // session.max_concurrent_runs
  int kv_caches = 0;     // session.max_kv_caches
  bool planned = false;  // all sizes are bounded: runs allocate nothing. Else an arena session
  std::string not_planned_because;
  std::vector<Estimate> estimates;   // of nodes with workspace, and of all that are heuristic
  std::optional<Unplaced> unplaced;  // the smallest unit that is not on an accelerator
  std::optional<uint64_t> smallest_useful_budget_bytes;  // where nothing fits
  std::vector<Outlook> outlook;
  std::vector<std::string> warnings;

  // The device called so, or null.
  const DeviceMemory* FindDevice(std::string_view name) const;
  // Weights and KV cache on accelerators.
  uint64_t resident_bytes() const;
};

}  // namespace lamina
