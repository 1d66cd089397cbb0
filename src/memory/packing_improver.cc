#include "memory/packing_improver.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "memory/skyline_search.h"

namespace lamina {
namespace {

constexpr int64_t kMaxOverlaps = 4'000'000;
constexpr int64_t kBaseNodes = 3'000;

// Luby's sequence 1 1 2 1 1 2 4 ...: restart lengths within a constant factor of the best for any search whose
// run times are unknown.
int64_t Luby(int64_t index) {  // index >= 1
  while (true) {
    const auto bits = std::bit_width(static_cast<uint64_t>(index));
    if (index == (int64_t{1} << bits) - 1) return int64_t{1} << (bits - 1);
    index -= (int64_t{1} << (bits - 1)) - 1;
  }
}

double EnvOr(const char* n, double d) { const char* e = getenv(n); return e ? atof(e) : d; }

// The n-th strategy of the portfolio.
SearchStrategy StrategyOf(int64_t index) {
  using Key = SearchStrategy::Key;
  static constexpr Key kKeys[] = {Key::kWidth, Key::kTightSection, Key::kSize, Key::kLongArea, Key::kFlatArea, Key::kArea};
  SearchStrategy strategy;
  strategy.key = kKeys[index % 6];
  strategy.seed = static_cast<uint64_t>(index)*1000+7+ EnvOr("SEED",0)*77777;
  if (index >= EnvOr("PLAIN", 3)) {
    strategy.noise = EnvOr("NOISE", 0.6);
    uint64_t h = strategy.seed * 0x9e3779b97f4a7c15u;
    double u1 = ((h >> 16) & 1023) / 1024.0, u2 = ((h >> 26) & 1023) / 1024.0, u3 = ((h >> 36) & 1023) / 1024.0;
    strategy.edge_bonus = EnvOr("FB", 2) * u1;
    strategy.level_bonus = EnvOr("TB", 2) * u2;
    strategy.slack_weight = EnvOr("SB", 100) * u3;
  }
  return strategy;
}

}  // namespace

class Improver {
 public:
  Improver(const PackingProblem& problem, int64_t& nodes, PackingLayout& layout)
      : search_(problem), problem_(problem), nodes_(nodes), layout_(layout), peak_(PackingPeak(problem, layout)) {}

  int64_t peak() const { return peak_; }
  bool out_of_nodes() const { return nodes_ <= 0; }
  int64_t proven_above() const { return proven_above_; }

  // Up to `runs` runs of the portfolio at `capacity`; true: a layout was found.
  bool Try(int64_t capacity, int64_t runs) {
    for (int64_t run = 0; run < runs && nodes_ > 0; ++run) {
      ++index_;
      const int64_t before = search_.nodes();
      const int64_t limit = std::min(nodes_, int64_t(EnvOr("BASE",kBaseNodes)) * Luby(index_));
      const SkylineSearch::Outcome outcome = search_.Run(capacity, StrategyOf(index_ - 1), limit);
      nodes_ -= std::max<int64_t>(1,search_.nodes() - before);
      if (outcome == SkylineSearch::Outcome::kFound) {
        layout_ = search_.layout();
        peak_ = PackingPeak(problem_, layout_);
        if (getenv("V")) fprintf(stderr,"  %ld at cap %ld run %ld left %ld\n",peak_,capacity,index_,nodes_);
        return true;
      }
      if (outcome == SkylineSearch::Outcome::kInfeasible) {
        proven_above_ = std::max(proven_above_, capacity + 1);
        return false;
      }
    }
    return false;
  }

 private:
  SkylineSearch search_;
  const PackingProblem& problem_;
  int64_t& nodes_;
  PackingLayout& layout_;
  int64_t peak_;
  int64_t proven_above_ = 0;
  int64_t index_ = 0;
};

void ImprovePacking(const PackingProblem& problem, int64_t target, int64_t& nodes, PackingLayout& layout) {
  if (nodes <= 0 || CountOverlaps(problem, kMaxOverlaps) >= kMaxOverlaps) return;
  Improver improver(problem, nodes, layout);
  int64_t runs = EnvOr("RUNS", 12);
  if (improver.Try(target, runs)) return;
  int64_t step = std::max<int64_t>(1,(improver.peak() - target)/2);
  while (!improver.out_of_nodes() && improver.peak() > target && improver.proven_above() < improver.peak()) {
    const int64_t capacity = std::max({improver.proven_above(), target, improver.peak() - step});
    if (improver.Try(capacity, runs)) { step = std::max<int64_t>(1, std::min(step * 2, (improver.peak() - target)/2)); continue; }
    if (step == 1) { runs *= 2; if (improver.Try(target, runs)) return; step = std::max<int64_t>(1,(improver.peak() - target)/2); }
    else step = step/2;
  }
}

}  // namespace lamina
