// Offset planner: gives every buffer of a memory pattern an offset in one block so that buffers that live at
// the same step do not overlap and the block (its peak) is as small as can be found.
//
//   std::vector<Interval> intervals = {{.size_bytes = 4096, .alignment = 256, .lower = 0, .upper = 2}, ...};
//   LAMINA_ASSIGN_OR_RETURN(const OffsetPlan plan, PlanOffsets(intervals, {}));
//   // interval i lives at [plan.offsets[i], plan.offsets[i] + its footprint)
//
// Steps are any integers in execution order. Lifetimes are half-open: [lower, upper) is live at the steps
// lower, lower + 1, ..., upper - 1, as in minimalloc's CSV files. A node's workspace lives in [step, step +
// 1); a value written at step p and last read at step c lives in [p, c + 1).
//
// Footprint: a buffer occupies its size rounded up to its alignment. All bytes of this file (peak, bound,
// capacity) count footprints.
//
// Method: greedy orders first; where their peak is above the target (the max-live lower bound, or the
// capacity that was asked for), a branch and bound over the skyline of the layout (skyline_search.h) which
// keeps the best layout found. Its effort is limited in search nodes and its choices depend on nothing but
// the intervals: the same input gives the same offsets on every machine.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lamina/status.h"

namespace lamina {

// Half-open range of steps [lower, upper).
struct StepRange {
  int64_t lower = 0;
  int64_t upper = 0;
};

struct Interval {
  int64_t size_bytes = 0;  // >= 0; an empty buffer gets an offset but occupies nothing
  int64_t alignment = 1;   // of the offset, a power of two
  int64_t lower = 0;       // first live step
  int64_t upper = 0;       // one past the last live step, > lower

  // Steps inside [lower, upper) at which the buffer is not live (its bytes may serve others then).
  std::vector<StepRange> gaps;
  // The buffer must lie exactly here; a multiple of `alignment`.
  std::optional<int64_t> fixed_offset;
  // Buffers with the same non-negative group share one offset and may be live together (in-place reuse: an
  // output that overwrites its input, a reshape). At each step the group occupies its largest live member.
  int64_t alias_group = -1;
};

struct OffsetPlannerOptions {
  // Unset: the peak is minimised. Set: the first layout found whose peak is at most this is taken.
  std::optional<int64_t> good_enough_bytes;
  // Set: a peak above this is an error. Alone it is also what is good enough.
  std::optional<int64_t> capacity_bytes;
  // Limit of the branch and bound, in multiples of kSearchNodesPerEffort nodes; 0 leaves it at the greedy
  // orders.
  int64_t effort = 4;
};

inline constexpr int64_t kSearchNodesPerEffort = 10'000;

struct OffsetPlan {
  std::vector<int64_t> offsets;   // one per interval, in bytes
  int64_t peak_bytes = 0;         // max over intervals of offset + footprint
  int64_t lower_bound_bytes = 0;  // max over steps of the sum of live footprints: no layout has a lower peak
  int64_t search_nodes = 0;       // nodes the branch and bound visited; 0 where a greedy order was enough
};

// INVALID_ARGUMENT: an interval that breaks a contract above (the text names its index), fixed offsets that
// overlap, alias groups with two fixed offsets, or sizes whose sum passes 2^60 bytes.
// RESOURCE_EXHAUSTED with a MemoryShortage (device left empty): a capacity was asked for and the best layout
// found needs more. Thread-safe.
Result<OffsetPlan> PlanOffsets(std::span<const Interval> intervals, const OffsetPlannerOptions& options);

}  // namespace lamina
