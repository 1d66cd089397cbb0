#include "memory/packing_problem.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <unordered_map>

#include "base/error.h"

namespace lamina {
namespace {

constexpr int64_t kMaxTotalBytes = int64_t{1} << 60;

// One live range of one item, gaps cut out, before steps become sections.
struct Piece {
  int32_t item;
  int64_t lower;
  int64_t upper;
  int64_t size_bytes;
};

Status CheckInterval(const Interval& interval, size_t index) {
  if (interval.size_bytes < 0) {
    return InvalidArgumentError("interval {}: size {} is negative", index, interval.size_bytes);
  }
  if (interval.alignment <= 0 || !std::has_single_bit(static_cast<uint64_t>(interval.alignment))) {
    return InvalidArgumentError("interval {}: alignment {} is not a power of two", index, interval.alignment);
  }
  if (interval.lower >= interval.upper) {
    return InvalidArgumentError("interval {}: lifetime [{}, {}) is empty", index, interval.lower,
                                interval.upper);
  }
  if (interval.size_bytes > kMaxTotalBytes || interval.alignment > kMaxTotalBytes) {
    return InvalidArgumentError("interval {}: size {} with alignment {} exceeds {} bytes", index,
                                interval.size_bytes, interval.alignment, kMaxTotalBytes);
  }
  if (interval.fixed_offset) {
    const int64_t offset = *interval.fixed_offset;
    if (offset < 0 || offset > kMaxTotalBytes) {
      return InvalidArgumentError("interval {}: fixed offset {} is outside [0, {}]", index, offset,
                                  kMaxTotalBytes);
    }
    if (offset % interval.alignment != 0) {
      return InvalidArgumentError("interval {}: fixed offset {} is not a multiple of its alignment {}", index,
                                  offset, interval.alignment);
    }
  }
  for (const StepRange& gap : interval.gaps) {
    if (gap.lower >= gap.upper || gap.lower < interval.lower || gap.upper > interval.upper) {
      return InvalidArgumentError("interval {}: gap [{}, {}) does not lie in its lifetime [{}, {})", index,
                                  gap.lower, gap.upper, interval.lower, interval.upper);
    }
  }
  return Status();
}

// Appends what is left of the interval's lifetime without its gaps.
void AppendPieces(const Interval& interval, int64_t footprint_bytes, int32_t item,
                  std::vector<Piece>& pieces) {
  std::vector<StepRange> gaps = interval.gaps;
  std::sort(gaps.begin(), gaps.end(),
            [](const StepRange& a, const StepRange& b) { return a.lower < b.lower; });
  int64_t from = interval.lower;
  for (const StepRange& gap : gaps) {
    if (gap.lower > from) pieces.push_back({item, from, gap.lower, footprint_bytes});
    from = std::max(from, gap.upper);
  }
  if (from < interval.upper) pieces.push_back({item, from, interval.upper, footprint_bytes});
}

// Replaces the overlapping pieces of one alias group by disjoint ones whose size is the largest live
// member's.
std::vector<Piece> MergeGroupPieces(const std::vector<Piece>& members) {
  std::vector<int64_t> points;
  for (const Piece& piece : members) {
    points.push_back(piece.lower);
    points.push_back(piece.upper);
  }
  std::sort(points.begin(), points.end());
  points.erase(std::unique(points.begin(), points.end()), points.end());
  std::vector<int64_t> size(points.size(), 0);
  for (const Piece& piece : members) {
    const auto first = std::lower_bound(points.begin(), points.end(), piece.lower) - points.begin();
    for (size_t i = static_cast<size_t>(first); points[i] < piece.upper; ++i) {
      size[i] = std::max(size[i], piece.size_bytes);
    }
  }
  std::vector<Piece> merged;
  for (size_t i = 0; i + 1 < points.size(); ++i) {
    if (size[i] == 0) continue;
    if (!merged.empty() && merged.back().upper == points[i] && merged.back().size_bytes == size[i]) {
      merged.back().upper = points[i + 1];
    } else {
      merged.push_back({members.front().item, points[i], points[i + 1], size[i]});
    }
  }
  return merged;
}

// Turns steps into sections. `pieces` of one item are adjacent and ascending. Scanning the steps at which
// something starts or ends, a live set is maximal exactly when something ends after something has
// started since the last maximal one.
int32_t BuildSegments(const std::vector<Piece>& pieces, int64_t unit_bytes, std::vector<PackingItem>& items) {
  struct Event {
    int64_t step;
    bool is_start;
  };
  std::vector<Event> events;
  events.reserve(2 * pieces.size());
  for (const Piece& piece : pieces) {
    events.push_back({piece.lower, true});
    events.push_back({piece.upper, false});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return a.step != b.step ? a.step < b.step : a.is_start < b.is_start;  // ends first
  });
  std::vector<int64_t> steps;         // distinct
  std::vector<int32_t> section_from;  // of each step: the section that begins there or later
  int32_t section_count = 0;
  bool started = false;
  for (size_t i = 0; i < events.size();) {
    const int64_t step = events[i].step;
    bool starts_here = false;
    for (; i < events.size() && events[i].step == step; ++i) {
      if (events[i].is_start) {
        starts_here = true;
      } else if (started) {
        ++section_count;
        started = false;
      }
    }
    started = started || starts_here;
    steps.push_back(step);
    section_from.push_back(section_count);
  }
  const auto section_at = [&](int64_t step) {
    return section_from[static_cast<size_t>(std::lower_bound(steps.begin(), steps.end(), step) -
                                            steps.begin())];
  };
  for (const Piece& piece : pieces) {
    std::vector<PackingSegment>& segments = items[static_cast<size_t>(piece.item)].segments;
    const PackingSegment segment = {section_at(piece.lower), section_at(piece.upper),
                                    piece.size_bytes / unit_bytes};
    if (!segments.empty() && segments.back().end == segment.begin && segments.back().size == segment.size) {
      segments.back().end = segment.end;
    } else {
      segments.push_back(segment);
    }
  }
  return section_count;
}

void SetLowerBound(PackingProblem& problem) {
  std::vector<int64_t> change(static_cast<size_t>(problem.section_count) + 1, 0);
  problem.lower_bound = 0;
  for (const PackingItem& item : problem.items) {
    for (const PackingSegment& segment : item.segments) {
      change[static_cast<size_t>(segment.begin)] += segment.size;
      change[static_cast<size_t>(segment.end)] -= segment.size;
    }
    if (item.fixed_offset >= 0) {
      problem.lower_bound = std::max(problem.lower_bound, item.fixed_offset + item.max_size);
    }
  }
  int64_t live = 0;
  for (const int64_t delta : change) {
    live += delta;
    problem.lower_bound = std::max(problem.lower_bound, live);
  }
}

}  // namespace

Result<NormalizedIntervals> NormalizeIntervals(std::span<const Interval> intervals) {
  NormalizedIntervals normalized;
  std::vector<PackingItem>& items = normalized.problem.items;
  std::unordered_map<int64_t, int32_t> item_of_group;
  std::vector<int64_t> fixed_bytes;  // per item, -1: free
  std::vector<int64_t> alignment_bytes;
  std::vector<std::vector<Piece>> pieces_of_group_item;  // empty for an item of one interval
  std::vector<Piece> pieces;
  int64_t total_bytes = 0;
  uint64_t unit = 0;

  for (size_t i = 0; i < intervals.size(); ++i) {
    const Interval& interval = intervals[i];
    LAMINA_RETURN_IF_ERROR(CheckInterval(interval, i));
    if (interval.size_bytes == 0 && interval.alias_group < 0) {
      normalized.item_of_interval.push_back(-1);
      continue;
    }
    const int64_t footprint_bytes = AlignUp(interval.size_bytes, interval.alignment);
    // An alignment is counted too: padding before a buffer is smaller than it.
    total_bytes += footprint_bytes + interval.alignment;
    if (total_bytes > kMaxTotalBytes) {
      return InvalidArgumentError("interval {}: the sizes up to here add up to more than {} bytes", i,
                                  kMaxTotalBytes);
    }
    unit = std::gcd(unit, static_cast<uint64_t>(footprint_bytes));
    if (interval.fixed_offset) unit = std::gcd(unit, static_cast<uint64_t>(*interval.fixed_offset));

    auto item = static_cast<int32_t>(items.size());
    const bool is_group = interval.alias_group >= 0;
    if (is_group) {
      item = item_of_group.try_emplace(interval.alias_group, item).first->second;
    }
    const auto slot = static_cast<size_t>(item);
    if (slot == items.size()) {
      items.emplace_back();
      fixed_bytes.push_back(-1);
      alignment_bytes.push_back(1);
      pieces_of_group_item.emplace_back();
    }
    if (interval.fixed_offset) {
      if (fixed_bytes[slot] >= 0 && fixed_bytes[slot] != *interval.fixed_offset) {
        return InvalidArgumentError("interval {}: alias group {} is fixed at {} and at {}", i,
                                    interval.alias_group, fixed_bytes[slot], *interval.fixed_offset);
      }
      fixed_bytes[slot] = *interval.fixed_offset;
    }
    alignment_bytes[slot] = std::max(alignment_bytes[slot], interval.alignment);
    if (interval.size_bytes > 0) {
      AppendPieces(interval, footprint_bytes, item, is_group ? pieces_of_group_item[slot] : pieces);
    }
    normalized.item_of_interval.push_back(item);
  }

  for (const std::vector<Piece>& members : pieces_of_group_item) {
    if (members.empty()) continue;
    const std::vector<Piece> merged = MergeGroupPieces(members);
    pieces.insert(pieces.end(), merged.begin(), merged.end());
  }
  normalized.unit_bytes = unit == 0 ? 1 : static_cast<int64_t>(unit);
  normalized.problem.section_count = BuildSegments(pieces, normalized.unit_bytes, items);

  // Items without bytes (a group of empty buffers, a lifetime that is all gap) drop out.
  std::vector<int32_t> kept_as(items.size(), -1);
  size_t kept = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].segments.empty()) continue;
    PackingItem item = std::move(items[i]);
    item.alignment = alignment_bytes[i] / std::gcd(alignment_bytes[i], normalized.unit_bytes);
    item.fixed_offset = fixed_bytes[i] < 0 ? -1 : fixed_bytes[i] / normalized.unit_bytes;
    for (const PackingSegment& segment : item.segments) item.max_size = std::max(item.max_size, segment.size);
    if (item.fixed_offset >= 0 && fixed_bytes[i] % alignment_bytes[i] != 0) {
      return InvalidArgumentError("an alias group is fixed at {}, not a multiple of its alignment {}",
                                  fixed_bytes[i], alignment_bytes[i]);
    }
    kept_as[i] = static_cast<int32_t>(kept);
    items[kept++] = std::move(item);
  }
  items.resize(kept);
  for (int32_t& item : normalized.item_of_interval) {
    if (item >= 0) item = kept_as[static_cast<size_t>(item)];
  }
  SetLowerBound(normalized.problem);
  return normalized;
}

std::vector<PackingComponent> SplitIntoComponents(const PackingProblem& problem) {
  // crossed[s]: some item spans the boundary between sections s - 1 and s.
  std::vector<int32_t> change(static_cast<size_t>(problem.section_count) + 1, 0);
  for (const PackingItem& item : problem.items) {
    ++change[static_cast<size_t>(item.begin()) + 1];
    --change[static_cast<size_t>(item.end())];
  }
  std::vector<int32_t> component_of(static_cast<size_t>(problem.section_count), 0);
  std::vector<int32_t> first_section = {0};
  int32_t crossing = 0;
  for (int32_t s = 1; s < problem.section_count; ++s) {
    crossing += change[static_cast<size_t>(s)];
    if (crossing == 0) first_section.push_back(s);
    component_of[static_cast<size_t>(s)] = static_cast<int32_t>(first_section.size()) - 1;
  }
  std::vector<PackingComponent> components(problem.section_count == 0 ? 0 : first_section.size());
  for (size_t c = 0; c < components.size(); ++c) {
    const int32_t end = c + 1 < first_section.size() ? first_section[c + 1] : problem.section_count;
    components[c].problem.section_count = end - first_section[c];
  }
  for (size_t i = 0; i < problem.items.size(); ++i) {
    const auto c = static_cast<size_t>(component_of[static_cast<size_t>(problem.items[i].begin())]);
    PackingItem item = problem.items[i];
    for (PackingSegment& segment : item.segments) {
      segment.begin -= first_section[c];
      segment.end -= first_section[c];
    }
    components[c].problem.items.push_back(std::move(item));
    components[c].item_ids.push_back(static_cast<int32_t>(i));
  }
  for (PackingComponent& component : components) SetLowerBound(component.problem);
  return components;
}

int64_t PackingPeak(const PackingProblem& problem, const PackingLayout& layout) {
  int64_t peak = 0;
  for (size_t i = 0; i < problem.items.size(); ++i) {
    peak = std::max(peak, layout[i] + problem.items[i].max_size);
  }
  return peak;
}

}  // namespace lamina
