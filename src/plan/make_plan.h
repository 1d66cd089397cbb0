// Makes the plan of a session from graph, options and device descriptions: places the nodes, fits budgets,
// lays out every frame. Reads no weights and needs no device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lamina/status.h"
#include "memory/offset_planner.h"
#include "model/decoder_contract.h"
#include "model/graph.h"
#include "model/model.h"
#include "placement/apply_placement.h"
#include "placement/layer_rules.h"
#include "placement/node_stats.h"
#include "placement/placement.h"
#include "placement/size_based_accountant.h"
#include "plan/budget_fit.h"
#include "plan/frame_planner.h"
#include "plan/kv_layout.h"
#include "plan/memory_budget.h"
#include "plan/phases.h"
#include "plan/plan.h"
#include "provider/graph_node_info.h"
#include "weights/load/load_options.h"

namespace lamina {

struct PlanSettings {
  int64_t context_tokens = 0;
  int64_t max_batch = 1;
  int64_t prefill_chunk_tokens = 512;
  ShapeOverrides max_shapes;
  int frames = 1;
  int kv_caches = 1;
  bool prepack = true;

  // session.device_memory_budget; devices without one may use what is free.
  std::vector<DeviceBudget> budgets;
  std::optional<GpuLayers> gpu_layers;
  // session.resource_cuda_partitioning_settings, for devices of the provider `accounted_provider`. Not
  // together with budgets.
  std::optional<PartitioningSettings> partitioning;
  std::shared_ptr<const NodeMemoryStatsTable> node_stats;
  std::string accounted_provider = "cuda";

  std::shared_ptr<const LayerRules> rules;  // null: none
  bool allow_unmatched_devices = false;
  bool disable_cpu_fallback = false;
  OffsetPlannerOptions offsets;
};

struct PlanRequest {
  // Null, or `graph`: it then gets the casts and copies of its placement, and the plan is that of the result.
  // Otherwise the plan foresees them.
  Graph* applied = nullptr;
  DerivedTensors* derived = nullptr;          // with `applied`: the model's, gets the casts of its constants
  const Graph* graph = nullptr;               // shapes inferred
  const DecoderSignature* decoder = nullptr;  // null: no language model
  std::span<const PlacementDevice> devices;   // accelerators in order of priority, the host last
  std::span<const uint64_t> free_bytes;       // by device; what can be allocated now
  // By device, bytes of the budget that placement leaves alone, as an earlier plan turned out to need them;
  // empty: none.
  std::span<const uint64_t> withheld_bytes;
  // By device, how weights are loaded, for the memory that this pins on the host; empty: as by default.
  std::span<const DeviceLoaderOptions> loading;
  const ConstantValues* constants = nullptr;
  PlanSettings settings;
  // Level-2 rewrites, made in `applied` after its nodes are placed. Where every node is on the host, whoever
  // asks has made them already.
  struct Rewrites {
    Model* model = nullptr;  // the model of `applied`; null: none are made
    std::string disabled;    // session.disabled_rewrites
    // Called when nodes were replaced: makes `constants` those of the model as it is.
    std::function<Status()> on_rewritten;
  };
  Rewrites rewrites;
};

// The plan, and what a session needs to do as it says.
struct PlannedGraph {
  Plan plan;
  Placement placement;
  // Where the graph was changed for it (PlanRequest::applied): the placement of what it is then.
  std::optional<PlacedGraph> placed;
  std::vector<NodeId> order;
  KvLayout kv;
  std::vector<Phase> phases;
  std::vector<DeviceNeed> needs;  // by device
};

// INVALID_ARGUMENT for settings that contradict each other or name no device; RESOURCE_EXHAUSTED with a
// MemoryShortage where a budget is too small for what was asked; UNSUPPORTED and INVALID_MODEL from the
// partitioner. A model without bounds gives a plan whose sizes are estimates (Plan::planned is false).
Result<PlannedGraph> MakePlan(const PlanRequest& request);

// The largest multiple of 256 tokens, at most `max_tokens`, with which everything stays where it is with
// `request`'s context. Errors of MakePlan.
Result<int64_t> LargestContext(const PlanRequest& request, int64_t max_tokens);

}  // namespace lamina
