#include "memory/memory_pattern.h"

#include <algorithm>

#include "memory/offset_planner.h"

namespace lamina {
namespace {

// Unambiguous bytes of the shapes: each rank, then its dimensions.
std::string KeyOf(std::span<const Shape> shapes) {
  std::string key;
  const auto append = [&key](int64_t number) {
    key.append(reinterpret_cast<const char*>(&number), sizeof(number));
  };
  for (const Shape& shape : shapes) {
    append(shape.rank());
    for (const int64_t dim : shape.dims()) append(dim);
  }
  return key;
}

Interval IntervalOf(int64_t size_bytes, const std::vector<std::pair<int64_t, int64_t>>& live, int64_t end) {
  Interval interval;
  interval.size_bytes = size_bytes;
  interval.alignment = kPatternAlignment;
  interval.lower = live.front().first;
  interval.upper = std::min(live.back().second, end);
  for (size_t i = 1; i < live.size(); ++i) interval.gaps.push_back({live[i - 1].second, live[i].first});
  return interval;
}

}  // namespace

std::optional<MemoryPattern::Block> MemoryPattern::Find(int32_t value) const {
  const auto it = std::lower_bound(blocks_.begin(), blocks_.end(), value,
                                   [](const auto& entry, int32_t wanted) { return entry.first < wanted; });
  if (it == blocks_.end() || it->first != value) return std::nullopt;
  return it->second;
}

const MemoryPattern* MemoryPatternGroup::Find(Device device) const {
  for (const auto& [owner, pattern] : patterns_) {
    if (owner == device) return &pattern;
  }
  return nullptr;
}

MemoryPatternTracer::DeviceTrace& MemoryPatternTracer::TraceOf(Device device) {
  for (DeviceTrace& trace : traces_) {
    if (trace.device == device) return trace;
  }
  traces_.push_back({device, {}});
  return traces_.back();
}

void MemoryPatternTracer::Allocated(Device device, int32_t value, int64_t size_bytes) {
  Lifetime& lifetime = TraceOf(device).values[value];
  lifetime.size_bytes = std::max(lifetime.size_bytes, size_bytes);
  if (lifetime.allocated) return;
  lifetime.allocated = true;
  lifetime.live.emplace_back(clock_++, INT64_MAX);
}

void MemoryPatternTracer::Freed(Device device, int32_t value) {
  DeviceTrace& trace = TraceOf(device);
  const auto it = trace.values.find(value);
  if (it == trace.values.end() || !it->second.allocated) return;
  it->second.allocated = false;
  it->second.live.back().second = clock_++;
}

Result<MemoryPatternGroup> MemoryPatternTracer::Finish() const {
  MemoryPatternGroup group;
  for (const DeviceTrace& trace : traces_) {
    std::vector<int32_t> values;
    for (const auto& [value, lifetime] : trace.values) values.push_back(value);
    std::sort(values.begin(), values.end());
    std::vector<Interval> intervals;
    for (const int32_t value : values) {
      const Lifetime& lifetime = trace.values.at(value);
      intervals.push_back(IntervalOf(lifetime.size_bytes, lifetime.live, clock_));
    }
    OffsetPlannerOptions options;
    options.effort = 0;
    LAMINA_ASSIGN_OR_RETURN(const OffsetPlan plan, PlanOffsets(intervals, options));
    MemoryPattern pattern;
    pattern.peak_bytes_ = plan.peak_bytes;
    pattern.lower_bound_bytes_ = plan.lower_bound_bytes;
    for (size_t i = 0; i < values.size(); ++i) {
      pattern.blocks_.push_back({values[i], {plan.offsets[i], intervals[i].size_bytes}});
    }
    group.patterns_.emplace_back(trace.device, std::move(pattern));
  }
  return group;
}

MemoryPatternCache::Entry& MemoryPatternCache::At(std::string key) {
  if (const auto it = by_key_.find(key); it != by_key_.end()) {
    entries_.splice(entries_.begin(), entries_, it->second);
    return entries_.front();
  }
  if (entries_.size() == max_entries_) {
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
  entries_.push_front({key, nullptr});
  by_key_.emplace(std::move(key), entries_.begin());
  return entries_.front();
}

MemoryPatternCache::Lookup MemoryPatternCache::Find(std::span<const Shape> input_shapes) {
  std::string key = KeyOf(input_shapes);
  const std::scoped_lock lock(mutex_);
  const bool seen_before = by_key_.count(key) > 0;
  return {At(std::move(key)).patterns, seen_before};
}

std::shared_ptr<const MemoryPatternGroup> MemoryPatternCache::Insert(std::span<const Shape> input_shapes,
                                                                     MemoryPatternGroup patterns) {
  std::string key = KeyOf(input_shapes);
  const std::scoped_lock lock(mutex_);
  Entry& entry = At(std::move(key));
  if (!entry.patterns) entry.patterns = std::make_shared<const MemoryPatternGroup>(std::move(patterns));
  return entry.patterns;
}

size_t MemoryPatternCache::size() const {
  const std::scoped_lock lock(mutex_);
  return entries_.size();
}

}  // namespace lamina
