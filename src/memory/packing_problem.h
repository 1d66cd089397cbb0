// The planner's normal form of a set of intervals: items over sections.
//
// A section is a maximal set of buffers live at one step. Steps whose live set is contained in a neighbour's
// add no constraint and are dropped, so that a chain of 10,000 nodes has at most as many sections. An item is
// what is placed as a whole: one interval, or an alias group. It covers sections in segments, each with its
// own size (a group changes its size over time; a gap leaves sections out). All lengths are in units: the
// greatest common divisor of every footprint and fixed offset, so that a layout is exact in units.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lamina/status.h"
#include "memory/offset_planner.h"

namespace lamina {

struct PackingSegment {
  int32_t begin = 0;  // sections [begin, end)
  int32_t end = 0;
  int64_t size = 0;  // units, > 0
};

struct PackingItem {
  std::vector<PackingSegment> segments;  // ascending, disjoint, not empty
  int64_t alignment = 1;                 // units
  int64_t fixed_offset = -1;             // units; -1: free
  int64_t max_size = 0;                  // units, largest segment

  int32_t begin() const { return segments.front().begin; }
  int32_t end() const { return segments.back().end; }
  bool contiguous() const { return segments.size() == 1; }
};

struct PackingProblem {
  std::vector<PackingItem> items;
  int32_t section_count = 0;
  int64_t lower_bound = 0;  // units: max over sections of the sum of sizes, and of fixed tops
};

// Parts that share no section: each can be packed on its own in the same block.
struct PackingComponent {
  PackingProblem problem;
  std::vector<int32_t> item_ids;  // index in the whole problem's items
};

struct NormalizedIntervals {
  PackingProblem problem;
  std::vector<int32_t> item_of_interval;  // -1: the interval is empty
  int64_t unit_bytes = 1;
};

// Checks the contracts of Interval; the errors of PlanOffsets.
Result<NormalizedIntervals> NormalizeIntervals(std::span<const Interval> intervals);

std::vector<PackingComponent> SplitIntoComponents(const PackingProblem& problem);

// Offset per item, in units.
using PackingLayout = std::vector<int64_t>;

// Max over items of offset + size.
int64_t PackingPeak(const PackingProblem& problem, const PackingLayout& layout);

inline int64_t AlignUp(int64_t value, int64_t alignment) {  // alignment: a power of two
  return (value + alignment - 1) & -alignment;
}

}  // namespace lamina
