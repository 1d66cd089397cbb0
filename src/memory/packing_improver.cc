#include "memory/packing_improver.h"

#include <algorithm>
#include <iterator>

#include "memory/skyline_search.h"
#include "memory/unit_random.h"

namespace lamina {
namespace {

constexpr int64_t kMaxOverlaps = 4'000'000;
constexpr int64_t kShortestRunNodes = 1'000;
// A node looks at every section of its part: those of large problems count as several.
constexpr int64_t kSectionsPerNode = 1'024;
constexpr int64_t kFirstRunsPerCapacity = 6;
// The first runs try the plain orders; later ones vary them.
constexpr int64_t kPlainRuns = 3;

// Luby's sequence 1 1 2 1 1 2 4 ...: restart lengths within a constant factor of the best for a search whose
// run times are unknown. `index` >= 1.
int64_t Luby(int64_t index) {
  int64_t length = 1;  // of a prefix that ends with its largest element
  while (length < index) length = 2 * length + 1;
  while (index != length) {
    length /= 2;
    if (index > length) index -= length;
  }
  return (length + 1) / 2;
}

// The n-th strategy of the portfolio; the factors' ranges were found by experiment on hard instances.
SearchStrategy StrategyOf(int64_t index) {
  using Key = SearchStrategy::Key;
  static constexpr Key kKeys[] = {Key::kWidth,    Key::kTightSection, Key::kSize,
                                  Key::kLongArea, Key::kFlatArea,     Key::kArea};
  SearchStrategy strategy;
  strategy.key = kKeys[index % static_cast<int64_t>(std::size(kKeys))];
  strategy.seed = static_cast<uint64_t>(index);
  if (index >= kPlainRuns) {
    UnitRandom random(static_cast<uint64_t>(~index));
    strategy.noise = 0.6;
    strategy.edge_bonus = 3 * random.Next();
    strategy.level_bonus = 3 * random.Next();
    strategy.slack_weight = 200 * random.Next();
  }
  return strategy;
}

class Improver {
 public:
  Improver(const PackingProblem& problem, int64_t& nodes, PackingLayout& layout)
      : problem_(problem),
        search_(problem),
        nodes_(nodes),
        layout_(layout),
        node_cost_(NodeCost(problem)),
        run_nodes_(std::max(kShortestRunNodes, 2 * static_cast<int64_t>(problem.items.size()))),
        peak_(PackingPeak(problem, layout)) {}

  // What a node counts against the limit.
  static int64_t NodeCost(const PackingProblem& problem) {
    return 1 + problem.section_count / kSectionsPerNode;
  }

  // Lowers the capacity in steps that double after a success and halve after a failure, down to one unit;
  // then it allows more runs for each capacity and begins again at the target.
  void DescendTo(int64_t target) {
    int64_t runs = kFirstRunsPerCapacity;
    if (Try(target, runs)) return;
    int64_t step = (peak_ - target) / 2;
    while (nodes_ > 0 && peak_ > target && peak_ > proven_bound_) {
      step = std::clamp<int64_t>(step, 1, std::max<int64_t>(1, (peak_ - target) / 2));
      const int64_t capacity = std::max(peak_ - step, proven_bound_);
      if (Try(capacity, runs)) {
        step *= 2;
      } else if (step > 1) {
        step /= 2;
      } else {
        runs *= 2;
        if (Try(target, runs)) return;
        step = (peak_ - target) / 2;
      }
    }
  }

 private:
  // Up to `runs` runs of the portfolio at `capacity`; true: a layout was found and is the best one now.
  bool Try(int64_t capacity, int64_t runs) {
    for (int64_t run = 0; run < runs && nodes_ > 0 && capacity >= proven_bound_; ++run) {
      const int64_t before = search_.nodes();
      const SearchStrategy strategy = StrategyOf(runs_made_++);
      const SkylineSearch::Outcome outcome =
          search_.Run(capacity, strategy, std::min(nodes_ / node_cost_ + 1, run_nodes_ * Luby(runs_made_)));
      // A run that ends before its first node counts too, so that the loops above always end.
      nodes_ -= std::min(nodes_, node_cost_ * std::max<int64_t>(1, search_.nodes() - before));
      if (outcome == SkylineSearch::Outcome::kFound) {
        layout_ = search_.layout();
        peak_ = PackingPeak(problem_, layout_);
        return true;
      }
      if (outcome == SkylineSearch::Outcome::kInfeasible) proven_bound_ = capacity + 1;
    }
    return false;
  }

  const PackingProblem& problem_;
  SkylineSearch search_;
  int64_t& nodes_;
  PackingLayout& layout_;
  const int64_t node_cost_;
  const int64_t run_nodes_;  // of the shortest run
  int64_t peak_;
  int64_t proven_bound_ = 0;  // no layout has a lower peak
  int64_t runs_made_ = 0;
};

}  // namespace

void ImprovePacking(const PackingProblem& problem, int64_t target, int64_t& nodes, PackingLayout& layout) {
  // A layout takes a node for each item: with fewer the search cannot come to an end.
  const auto num_items = static_cast<int64_t>(problem.items.size());
  if (nodes / Improver::NodeCost(problem) < num_items) return;
  if (nodes <= 0 || CountOverlaps(problem, kMaxOverlaps) >= kMaxOverlaps) return;
  Improver(problem, nodes, layout).DescendTo(target);
}

}  // namespace lamina
