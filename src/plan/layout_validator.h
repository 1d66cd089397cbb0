// Checks a memory layout against the lifetimes of its buffers. It shares no code and no types with the
// planner of src/memory: it sweeps over the steps with the live buffers in address order and computes the
// lower bound itself, so that a mistake of the planner does not hide here.
//
// Terms as in the planner: a buffer is live in [lower, upper) except in its gaps; it occupies its footprint,
// size_bytes rounded up to its alignment, from `offset` on.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lamina/status.h"

namespace lamina {

struct PlacedBuffer {
  std::string name;  // for messages
  int64_t size_bytes = 0;
  int64_t alignment = 1;
  int64_t lower = 0;
  int64_t upper = 0;
  int64_t offset = 0;
  std::vector<std::pair<int64_t, int64_t>> gaps;  // half-open, inside [lower, upper)
  int64_t alias_group = -1;  // non-negative: members lie at one offset and may be live together
};

struct LayoutReport {
  int64_t peak_bytes = 0;  // max of offset + footprint, of buffers that are live at all
  int64_t lower_bound_bytes =
      0;  // max over steps of the live footprints; of a group, its largest live member
};

// INVALID_ARGUMENT naming the buffers where two live ones overlap, an offset is negative or not aligned, an
// alias group lies at two offsets, or a description makes no sense (empty lifetime, negative size, sums that
// overflow); RESOURCE_EXHAUSTED with a MemoryShortage where the peak passes `capacity_bytes`. Thread-safe.
Result<LayoutReport> ValidateLayout(std::span<const PlacedBuffer> buffers,
                                    std::optional<int64_t> capacity_bytes = std::nullopt);

}  // namespace lamina
