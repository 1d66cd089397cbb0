#include "memory/greedy_packing.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace lamina {
namespace {

constexpr int kRepairRounds = 16;

int32_t Width(const PackingItem& item) {
  int32_t width = 0;
  for (const PackingSegment& segment : item.segments) width += segment.end - segment.begin;
  return width;
}

double Area(const PackingItem& item) {
  double area = 0;
  for (const PackingSegment& segment : item.segments) {
    area += static_cast<double>(segment.size) * (segment.end - segment.begin);
  }
  return area;
}

double KeyOf(const PackingItem& item, GreedyOrder order) {
  switch (order) {
    case GreedyOrder::kBySize:
      return static_cast<double>(item.max_size);
    case GreedyOrder::kByArea:
      return Area(item);
    case GreedyOrder::kByWidth:
      return Width(item);
    case GreedyOrder::kByStart:
      return -item.begin();
  }
  return 0;
}

// Items with more blame come earlier among those that are neither fixed nor live in every section.
std::vector<int32_t> OrderItems(const PackingProblem& problem, GreedyOrder order,
                                std::span<const int32_t> blame) {
  // 0: fixed, 1: lives in every section, 2: the others, most blame first, then largest key.
  struct Rank {
    int32_t group;
    int32_t blame;
    double key;
  };
  std::vector<Rank> ranks;
  ranks.reserve(problem.items.size());
  for (size_t i = 0; i < problem.items.size(); ++i) {
    const PackingItem& item = problem.items[i];
    const int32_t group = item.fixed_offset >= 0 ? 0 : Width(item) == problem.section_count ? 1 : 2;
    // Among the items that live everywhere, the strictest alignment first: no padding between them.
    const double key = group == 1 ? static_cast<double>(item.alignment) : KeyOf(item, order);
    ranks.push_back({group, group == 2 && !blame.empty() ? blame[i] : 0, key});
  }
  std::vector<int32_t> ids(problem.items.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    const Rank& ra = ranks[static_cast<size_t>(a)];
    const Rank& rb = ranks[static_cast<size_t>(b)];
    if (ra.group != rb.group) return ra.group < rb.group;
    return ra.blame != rb.blame ? ra.blame > rb.blame : ra.key > rb.key;
  });
  return ids;
}

// The placed items of each section. Items that cover many sections are kept in one list instead, so that
// an insertion costs at most kWideSections steps.
class PlacedIndex {
 public:
  explicit PlacedIndex(const PackingProblem& problem)
      : problem_(problem),
        narrow_(static_cast<size_t>(problem.section_count)),
        seen_(problem.items.size(), 0) {}

  void Insert(int32_t id) {
    const PackingItem& item = Item(id);
    if (item.end() - item.begin() > kWideSections) {
      wide_.push_back(id);
      return;
    }
    for (const PackingSegment& segment : item.segments) {
      for (int32_t s = segment.begin; s < segment.end; ++s) narrow_[static_cast<size_t>(s)].push_back(id);
    }
  }

  // Calls visit(id) once for each placed item that may share a section with `item`.
  template <typename Visit>
  void ForEachNear(const PackingItem& item, Visit visit) {
    ++stamp_;
    for (const PackingSegment& segment : item.segments) {
      for (int32_t s = segment.begin; s < segment.end; ++s) {
        for (const int32_t id : narrow_[static_cast<size_t>(s)]) {
          if (std::exchange(seen_[static_cast<size_t>(id)], stamp_) != stamp_) visit(id);
        }
      }
    }
    for (const int32_t id : wide_) visit(id);
  }

 private:
  static constexpr int32_t kWideSections = 64;

  const PackingItem& Item(int32_t id) const { return problem_.items[static_cast<size_t>(id)]; }

  const PackingProblem& problem_;
  std::vector<std::vector<int32_t>> narrow_;
  std::vector<int32_t> wide_;
  std::vector<int32_t> seen_;
  int32_t stamp_ = 0;
};

// Offsets at which an item collides with one that is placed: the open range (low, high).
struct Forbidden {
  int64_t low;
  int64_t high;
};

void AppendForbidden(const PackingItem& item, const PackingItem& placed, int64_t placed_offset,
                     std::vector<Forbidden>& forbidden) {
  size_t j = 0;
  for (const PackingSegment& own : item.segments) {
    while (j < placed.segments.size() && placed.segments[j].end <= own.begin) ++j;
    for (size_t k = j; k < placed.segments.size() && placed.segments[k].begin < own.end; ++k) {
      forbidden.push_back({placed_offset - own.size, placed_offset + placed.segments[k].size});
    }
  }
}

int64_t LowestFreeOffset(std::vector<Forbidden>& forbidden, int64_t alignment) {
  std::sort(forbidden.begin(), forbidden.end(),
            [](const Forbidden& a, const Forbidden& b) { return a.low < b.low; });
  int64_t offset = 0;
  for (const Forbidden& range : forbidden) {
    if (range.low >= offset) break;
    if (range.high > offset) offset = AlignUp(range.high, alignment);
  }
  return offset;
}

}  // namespace

PackingLayout PackGreedily(const PackingProblem& problem, GreedyOrder order, std::span<const int32_t> blame) {
  PackingLayout layout(problem.items.size(), 0);
  PlacedIndex placed(problem);
  std::vector<Forbidden> forbidden;
  for (const int32_t id : OrderItems(problem, order, blame)) {
    const PackingItem& item = problem.items[static_cast<size_t>(id)];
    int64_t& offset = layout[static_cast<size_t>(id)];
    if (item.fixed_offset >= 0) {
      offset = item.fixed_offset;
    } else {
      forbidden.clear();
      placed.ForEachNear(item, [&](int32_t other) {
        AppendForbidden(item, problem.items[static_cast<size_t>(other)], layout[static_cast<size_t>(other)],
                        forbidden);
      });
      offset = LowestFreeOffset(forbidden, item.alignment);
    }
    placed.Insert(id);
  }
  return layout;
}

PackingLayout BestGreedyPacking(const PackingProblem& problem, int64_t target) {
  PackingLayout best;
  int64_t best_peak = INT64_MAX;
  const auto keep_better = [&](PackingLayout layout) {
    const int64_t peak = PackingPeak(problem, layout);
    if (peak >= best_peak) return false;
    best_peak = peak;
    best = std::move(layout);
    return true;
  };
  constexpr std::array kOrders = {GreedyOrder::kBySize, GreedyOrder::kByArea, GreedyOrder::kByWidth,
                                  GreedyOrder::kByStart};
  GreedyOrder best_order = kOrders.front();
  for (const GreedyOrder order : kOrders) {
    if (keep_better(PackGreedily(problem, order, {}))) best_order = order;
    if (best_peak <= target) return best;
  }
  // Repair: what stood out goes further down the next time. In a graph of equal layers what stands out does
  // so in each of them, and a few rounds repair them all.
  std::vector<int32_t> blame(problem.items.size(), 0);
  PackingLayout layout = best;
  for (int round = 0; round < kRepairRounds; ++round) {
    for (size_t i = 0; i < layout.size(); ++i) {
      if (layout[i] + problem.items[i].max_size > target) ++blame[i];
    }
    layout = PackGreedily(problem, best_order, blame);
    keep_better(layout);
    if (best_peak <= target) break;
  }
  return best;
}

std::pair<int32_t, int32_t> FindFixedOverlap(const PackingProblem& problem) {
  PlacedIndex placed(problem);
  std::pair<int32_t, int32_t> overlap = {-1, -1};
  std::vector<Forbidden> forbidden;
  for (int32_t id = 0; id < static_cast<int32_t>(problem.items.size()); ++id) {
    const PackingItem& item = problem.items[static_cast<size_t>(id)];
    if (item.fixed_offset < 0) continue;
    placed.ForEachNear(item, [&](int32_t other) {
      const PackingItem& earlier = problem.items[static_cast<size_t>(other)];
      forbidden.clear();
      AppendForbidden(item, earlier, earlier.fixed_offset, forbidden);
      for (const Forbidden& range : forbidden) {
        if (range.low < item.fixed_offset && item.fixed_offset < range.high) overlap = {other, id};
      }
    });
    if (overlap.first >= 0) break;
    placed.Insert(id);
  }
  return overlap;
}

}  // namespace lamina
