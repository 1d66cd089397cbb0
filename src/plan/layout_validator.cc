#include "plan/layout_validator.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <unordered_map>

#include "base/error.h"

namespace lamina {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 61;

// A buffer begins or ceases to be live.
struct Change {
  int64_t step;
  bool begins;
  size_t buffer;
};

// What occupies one offset at the current step: a buffer, or the live members of an alias group.
struct Resident {
  std::multiset<int64_t> footprints;
  size_t buffer;  // one of them
  int64_t group;
  int64_t end(int64_t offset) const { return offset + *footprints.rbegin(); }
};

Result<int64_t> Footprint(const PlacedBuffer& buffer) {
  if (buffer.alignment <= 0 || (buffer.alignment & (buffer.alignment - 1)) != 0 ||
      buffer.alignment > kMaxBytes) {
    return InvalidArgumentError("layout: buffer '{}': alignment {} is not a power of two in range",
                                buffer.name, buffer.alignment);
  }
  if (buffer.size_bytes < 0 || buffer.size_bytes > kMaxBytes) {
    return InvalidArgumentError("layout: buffer '{}': size {} is out of range", buffer.name,
                                buffer.size_bytes);
  }
  if (buffer.lower >= buffer.upper) {
    return InvalidArgumentError("layout: buffer '{}': lifetime [{}, {}) is empty", buffer.name, buffer.lower,
                                buffer.upper);
  }
  if (buffer.offset < 0 || buffer.offset > kMaxBytes || buffer.offset % buffer.alignment != 0) {
    return InvalidArgumentError("layout: buffer '{}': offset {} is not a multiple of {} in range",
                                buffer.name, buffer.offset, buffer.alignment);
  }
  const int64_t excess = buffer.size_bytes % buffer.alignment;
  return buffer.size_bytes + (excess == 0 ? 0 : buffer.alignment - excess);
}

Status AppendChanges(const PlacedBuffer& buffer, size_t index, std::vector<Change>& changes) {
  std::vector<std::pair<int64_t, int64_t>> gaps = buffer.gaps;
  std::sort(gaps.begin(), gaps.end());
  int64_t live_from = buffer.lower;
  for (const auto& [lower, upper] : gaps) {
    if (lower >= upper || lower < buffer.lower || upper > buffer.upper) {
      return InvalidArgumentError("layout: buffer '{}': gap [{}, {}) does not lie in its lifetime [{}, {})",
                                  buffer.name, lower, upper, buffer.lower, buffer.upper);
    }
    if (live_from < lower) {
      changes.push_back({live_from, true, index});
      changes.push_back({lower, false, index});
    }
    live_from = std::max(live_from, upper);
  }
  if (live_from < buffer.upper) {
    changes.push_back({live_from, true, index});
    changes.push_back({buffer.upper, false, index});
  }
  return Status();
}

Status CheckGroupOffsets(std::span<const PlacedBuffer> buffers) {
  std::unordered_map<int64_t, const PlacedBuffer*> first_member;
  for (const PlacedBuffer& buffer : buffers) {
    if (buffer.alias_group < 0) continue;
    const PlacedBuffer* first = first_member.try_emplace(buffer.alias_group, &buffer).first->second;
    if (first->offset != buffer.offset) {
      return InvalidArgumentError("layout: buffers '{}' and '{}' of alias group {} lie at {} and {}",
                                  first->name, buffer.name, buffer.alias_group, first->offset, buffer.offset);
    }
  }
  return Status();
}

// The buffers live at one step, in address order.
class LiveMap {
 public:
  LiveMap(std::span<const PlacedBuffer> buffers, const std::vector<int64_t>& footprints)
      : buffers_(buffers), footprints_(footprints) {}

  int64_t live_bytes() const { return live_bytes_; }

  Status Begin(size_t index) {
    const PlacedBuffer& buffer = buffers_[index];
    const auto [it, inserted] =
        residents_.try_emplace(buffer.offset, Resident{{}, index, buffer.alias_group});
    Resident& resident = it->second;
    if (!inserted && (resident.group < 0 || resident.group != buffer.alias_group)) {
      return Overlap(resident.buffer, index);
    }
    if (!inserted) live_bytes_ -= *resident.footprints.rbegin();
    resident.footprints.insert(footprints_[index]);
    live_bytes_ += *resident.footprints.rbegin();
    const auto above = std::next(it);
    if (above != residents_.end() && resident.end(it->first) > above->first) {
      return Overlap(above->second.buffer, index);
    }
    if (it != residents_.begin()) {
      const auto below = std::prev(it);
      if (below->second.end(below->first) > it->first) return Overlap(below->second.buffer, index);
    }
    return Status();
  }

  void End(size_t index) {
    const auto it = residents_.find(buffers_[index].offset);
    Resident& resident = it->second;
    live_bytes_ -= *resident.footprints.rbegin();
    resident.footprints.erase(resident.footprints.find(footprints_[index]));
    if (resident.footprints.empty()) {
      residents_.erase(it);
    } else {
      live_bytes_ += *resident.footprints.rbegin();
    }
  }

 private:
  Status Overlap(size_t first, size_t second) const {
    const PlacedBuffer& a = buffers_[first];
    const PlacedBuffer& b = buffers_[second];
    return InvalidArgumentError(
        "layout: buffers '{}' at [{}, {}) and '{}' at [{}, {}) overlap while both are live (steps [{}, {}) "
        "and [{}, {}))",
        a.name, a.offset, a.offset + footprints_[first], b.name, b.offset, b.offset + footprints_[second],
        a.lower, a.upper, b.lower, b.upper);
  }

  std::span<const PlacedBuffer> buffers_;
  const std::vector<int64_t>& footprints_;
  std::map<int64_t, Resident> residents_;  // by offset
  int64_t live_bytes_ = 0;
};

}  // namespace

Result<LayoutReport> ValidateLayout(std::span<const PlacedBuffer> buffers,
                                    std::optional<int64_t> capacity_bytes) {
  LayoutReport report;
  std::vector<int64_t> footprints;
  std::vector<Change> changes;
  const PlacedBuffer* highest = nullptr;
  int64_t total_bytes = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    LAMINA_ASSIGN_OR_RETURN(const int64_t footprint, Footprint(buffers[i]));
    footprints.push_back(footprint);
    if (footprint == 0) continue;
    total_bytes += footprint;
    if (total_bytes > kMaxBytes) {
      return InvalidArgumentError("layout: the sizes up to buffer '{}' exceed {} bytes", buffers[i].name,
                                  kMaxBytes);
    }
    const size_t changes_before = changes.size();
    LAMINA_RETURN_IF_ERROR(AppendChanges(buffers[i], i, changes));
    const bool ever_live = changes.size() > changes_before;
    if (ever_live && buffers[i].offset + footprint > report.peak_bytes) {
      report.peak_bytes = buffers[i].offset + footprint;
      highest = &buffers[i];
    }
  }
  LAMINA_RETURN_IF_ERROR(CheckGroupOffsets(buffers));

  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    if (a.step != b.step) return a.step < b.step;
    if (a.begins != b.begins) return b.begins;  // at one step, ends come first
    return a.buffer < b.buffer;
  });
  LiveMap live(buffers, footprints);
  for (const Change& change : changes) {
    if (change.begins) {
      LAMINA_RETURN_IF_ERROR(live.Begin(change.buffer));
      report.lower_bound_bytes = std::max(report.lower_bound_bytes, live.live_bytes());
    } else {
      live.End(change.buffer);
    }
  }
  if (capacity_bytes && report.peak_bytes > *capacity_bytes) {
    MemoryShortage shortage;
    shortage.needed_bytes = static_cast<uint64_t>(report.peak_bytes);
    shortage.available_bytes = static_cast<uint64_t>(std::max<int64_t>(*capacity_bytes, 0));
    shortage.largest_contributors = {{highest->name, static_cast<uint64_t>(highest->size_bytes)}};
    return Status::OutOfMemory(fmt::format("layout: buffer '{}' ends at {}, capacity is {} bytes",
                                           highest->name, report.peak_bytes, *capacity_bytes),
                               std::move(shortage));
  }
  return report;
}

}  // namespace lamina
