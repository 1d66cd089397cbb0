// Fills the Plan's tables from what was decided.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lamina/status.h"
#include "placement/layers.h"
#include "plan/layout_validator.h"
#include "plan/make_plan.h"

namespace lamina {

struct PlanReportRequest {
  const Graph* graph = nullptr;
  std::span<const PlacementDevice> devices;
  const LayerAssignment* layers = nullptr;
  std::span<const PlacementUnit> units;
  std::span<const uint64_t> budget_bytes;        // by device
  std::span<const std::string> budget_texts;     // by device
  std::span<const DeviceLoaderOptions> loading;  // by device; empty: as by default
  std::span<const ValueSizes> sizes;             // by phase
  NodeDemands* demands = nullptr;
};

// `planned` has everything but devices, layers, weights, cut edges, fallbacks, rules, offsets, estimates and
// warnings of its plan.
Status FillPlan(const PlanReportRequest& request, PlannedGraph& planned);

// A frame's buffers as the validator takes them.
std::vector<PlacedBuffer> PlacedBuffersOf(const FramePlan& frame);

}  // namespace lamina
