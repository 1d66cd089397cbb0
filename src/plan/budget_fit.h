// Chooses what lives on each accelerator, within its budget.
//
// Units (units.h) are chosen so that the bytes of weights and KV cache on the accelerators are as many as
// fit, everything else that the device then needs (execution frames, granularity) counted exactly. The
// choices that are considered do not depend on the budget: contiguous blocks of layers with or without
// embedding and head, experts with their layers or left out, and each of these followed by the units it
// leaves out, smallest first. So more budget never gives fewer resident bytes, and what is left at the end is
// too small for the smallest unit that was left out. Among equals the one with fewer cuts wins, then the
// earlier layers. Devices choose one after the other.
//
// Work: choices are tried from the largest down; their weights, caches and largest single step rule most of
// them out before anything is laid out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lamina/status.h"
#include "placement/placement.h"
#include "plan/memory_model.h"
#include "plan/plan.h"
#include "plan/units.h"

namespace lamina {

// What --gpu-layers asks for.
struct GpuLayers {
  bool all = false;  // everything
  int count = 0;     // the last so many layers; one more than there are: the head too
  // A whole number or "all"; INVALID_ARGUMENT for anything else.
  static Result<GpuLayers> Parse(std::string_view text);
};

struct BudgetFitRequest {
  const MemoryModel* memory = nullptr;
  std::span<const PlacementUnit> units;
  int num_layers = 0;
  // By device, the host last: the placement of every node if all units were given to that device. Nodes that
  // it cannot run are elsewhere in it.
  std::span<const Placement> all_on;
  std::span<const uint64_t> budget_bytes;  // by accelerator
  std::optional<GpuLayers> gpu_layers;
};

struct BudgetFit {
  // The smallest unit that was left out, and what the device would allocate in all with it.
  struct LeftOut {
    std::string name;
    int32_t device = 0;
    uint64_t allocated_bytes = 0;
  };
  std::vector<int32_t> device_of_unit;
  std::optional<LeftOut> unplaced;
  std::optional<uint64_t> smallest_useful_budget_bytes;  // where no unit was placed
};

// The placement in which each unit is on its device. Nodes of a fused group whose units were separated are on
// the host.
Placement ComposePlacement(const BudgetFitRequest& request, std::span<const int32_t> device_of_unit);

// RESOURCE_EXHAUSTED with a MemoryShortage: the units that gpu_layers asks for do not fit, or not even what
// rules put on a device. Errors of the memory model.
Result<BudgetFit> FitBudget(const BudgetFitRequest& request);

// "gpu:0: needs N bytes, has M": with its largest contributors.
Status MemoryShortageError(const Graph& graph, const DeviceDescription& device, const DeviceNeed& need,
                           uint64_t available_bytes, int kv_caches, int frames);

}  // namespace lamina
