#include "memory/offset_planner.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "base/error.h"
#include "memory/greedy_packing.h"
#include "memory/packing_improver.h"
#include "memory/packing_problem.h"

namespace lamina {
namespace {

// The layout of one component; `nodes` bounds its search and is reduced by what it used.
PackingLayout PackComponent(const PackingProblem& problem, int64_t target, int64_t& nodes) {
  PackingLayout layout = BestGreedyPacking(problem, target);
  if (PackingPeak(problem, layout) > target) ImprovePacking(problem, target, nodes, layout);
  return layout;
}

// Names the largest buffers: what a user can do something about.
MemoryShortage ShortageOf(std::span<const Interval> intervals, int64_t peak_bytes, int64_t capacity_bytes) {
  constexpr size_t kNamedContributors = 5;
  MemoryShortage shortage;
  shortage.needed_bytes = static_cast<uint64_t>(peak_bytes);
  shortage.available_bytes = static_cast<uint64_t>(std::max<int64_t>(capacity_bytes, 0));
  std::vector<size_t> ids(intervals.size());
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = i;
  std::stable_sort(ids.begin(), ids.end(),
                   [&](size_t a, size_t b) { return intervals[a].size_bytes > intervals[b].size_bytes; });
  ids.resize(std::min(ids.size(), kNamedContributors));
  for (const size_t id : ids) {
    shortage.largest_contributors.push_back(
        {"interval " + std::to_string(id), static_cast<uint64_t>(intervals[id].size_bytes)});
  }
  return shortage;
}

}  // namespace

Result<OffsetPlan> PlanOffsets(std::span<const Interval> intervals, const OffsetPlannerOptions& options) {
  if (options.effort < 0)
    return InvalidArgumentError("offset planner: effort {} is negative", options.effort);
  LAMINA_ASSIGN_OR_RETURN(const NormalizedIntervals normalized, NormalizeIntervals(intervals));
  const PackingProblem& problem = normalized.problem;
  if (const auto [first, second] = FindFixedOverlap(problem); first >= 0) {
    const auto interval_of = [&](int32_t item) {
      const std::vector<int32_t>& items = normalized.item_of_interval;
      return std::find(items.begin(), items.end(), item) - items.begin();
    };
    return InvalidArgumentError("intervals {} and {}: their fixed offsets overlap", interval_of(first),
                                interval_of(second));
  }

  int64_t target = problem.lower_bound;
  if (const auto enough = options.good_enough_bytes ? options.good_enough_bytes : options.capacity_bytes) {
    target = std::max(target, *enough / normalized.unit_bytes);
  }
  const int64_t node_limit =
      std::min(options.effort, INT64_MAX / kSearchNodesPerEffort) * kSearchNodesPerEffort;
  int64_t nodes_left = node_limit;

  PackingLayout layout(problem.items.size(), 0);
  for (const PackingComponent& component : SplitIntoComponents(problem)) {
    const PackingLayout part = PackComponent(component.problem, target, nodes_left);
    for (size_t i = 0; i < part.size(); ++i) layout[static_cast<size_t>(component.item_ids[i])] = part[i];
  }

  OffsetPlan plan;
  plan.lower_bound_bytes = problem.lower_bound * normalized.unit_bytes;
  plan.peak_bytes = PackingPeak(problem, layout) * normalized.unit_bytes;
  plan.search_nodes = node_limit - nodes_left;
  if (options.capacity_bytes && plan.peak_bytes > *options.capacity_bytes) {
    const bool impossible = plan.lower_bound_bytes > *options.capacity_bytes;
    return Status::OutOfMemory(
        fmt::format("memory layout: capacity is {} bytes, the best layout found needs {} ({} {})",
                    *options.capacity_bytes, plan.peak_bytes,
                    impossible ? "no layout needs less than" : "the lower bound is", plan.lower_bound_bytes),
        ShortageOf(intervals, plan.peak_bytes, *options.capacity_bytes));
  }
  std::unordered_map<int64_t, int64_t> fixed_offset_of_group;  // for groups that never hold a byte
  for (const Interval& interval : intervals) {
    if (interval.alias_group >= 0 && interval.fixed_offset) {
      fixed_offset_of_group[interval.alias_group] = *interval.fixed_offset;
    }
  }
  plan.offsets.reserve(intervals.size());
  for (size_t i = 0; i < intervals.size(); ++i) {
    const int32_t item = normalized.item_of_interval[i];
    if (item >= 0) {
      plan.offsets.push_back(layout[static_cast<size_t>(item)] * normalized.unit_bytes);
    } else {
      const auto group = fixed_offset_of_group.find(intervals[i].alias_group);
      plan.offsets.push_back(group != fixed_offset_of_group.end() ? group->second
                                                                  : intervals[i].fixed_offset.value_or(0));
    }
  }
  return plan;
}

}  // namespace lamina
