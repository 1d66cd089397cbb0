#include "memory/offset_planner.h"

#include <algorithm>
#include <numeric>

#include "memory/interval_generators.h"
#include "memory/packing_problem.h"
#include "memory/skyline_search.h"

namespace lamina {
namespace {

using testing::ExpectValid;
using ::testing::HasSubstr;
using testing::PerfectPacking;
using testing::RandomIntervalOptions;
using testing::RandomIntervals;

Interval Make(int64_t size, int64_t lower, int64_t upper, int64_t alignment = 1) {
  Interval interval;
  interval.size_bytes = size;
  interval.lower = lower;
  interval.upper = upper;
  interval.alignment = alignment;
  return interval;
}

OffsetPlan Plan(const std::vector<Interval>& intervals, const OffsetPlannerOptions& options = {}) {
  Result<OffsetPlan> plan = PlanOffsets(intervals, options);
  EXPECT_TRUE(plan.ok()) << plan.status().ToString();
  if (!plan.ok()) return {};
  ExpectValid(intervals, *plan);
  return *std::move(plan);
}

std::string ErrorOf(const std::vector<Interval>& intervals, const OffsetPlannerOptions& options = {}) {
  const Result<OffsetPlan> plan = PlanOffsets(intervals, options);
  EXPECT_FALSE(plan.ok());
  return plan.ok() ? "" : plan.status().ToString();
}

TEST(OffsetPlannerTest, NothingNeedsNothing) {
  const OffsetPlan plan = Plan({});
  EXPECT_EQ(plan.peak_bytes, 0);
  EXPECT_EQ(plan.lower_bound_bytes, 0);
}

TEST(OffsetPlannerTest, LifetimesAreHalfOpen) {
  EXPECT_EQ(Plan({Make(100, 0, 3), Make(60, 3, 5)}).peak_bytes, 100);
  EXPECT_EQ(Plan({Make(100, 0, 4), Make(60, 3, 5)}).peak_bytes, 160);
}

TEST(OffsetPlannerTest, FootprintsAreAligned) {
  const OffsetPlan plan = Plan({Make(1, 0, 2, 256), Make(257, 0, 2, 256), Make(0, 0, 2, 256)});
  EXPECT_EQ(plan.peak_bytes, 256 + 512);
  EXPECT_EQ(plan.lower_bound_bytes, plan.peak_bytes);
}

TEST(OffsetPlannerTest, StepsMayBeAnyNumbers) {
  const OffsetPlan plan =
      Plan({Make(8, INT64_MIN, INT64_MAX), Make(8, -5, -4), Make(8, 1'000'000'000'000, INT64_MAX)});
  EXPECT_EQ(plan.peak_bytes, 16);
}

TEST(OffsetPlannerTest, MembersOfAGroupShareTheirOffset) {
  std::vector<Interval> intervals = {Make(100, 0, 3), Make(40, 2, 6), Make(60, 3, 6)};
  EXPECT_EQ(Plan(intervals).peak_bytes, 140);
  intervals[0].alias_group = intervals[1].alias_group = 7;
  // Once its large member is dead, the group takes 40 bytes only.
  const OffsetPlan plan = Plan(intervals);
  EXPECT_EQ(plan.peak_bytes, 100);
  EXPECT_EQ(plan.offsets[0], plan.offsets[1]);
}

TEST(OffsetPlannerTest, OthersLiveInAGap) {
  std::vector<Interval> intervals = {Make(100, 0, 10), Make(80, 4, 6)};
  EXPECT_EQ(Plan(intervals).peak_bytes, 180);
  intervals[0].gaps = {{4, 6}};
  EXPECT_EQ(Plan(intervals).peak_bytes, 100);
  intervals[0].gaps = {{0, 10}};  // never live
  EXPECT_EQ(Plan(intervals).peak_bytes, 80);
}

TEST(OffsetPlannerTest, FixedBuffersStayAndOthersGoAround) {
  std::vector<Interval> intervals = {Make(10, 0, 4), Make(20, 0, 4), Make(30, 2, 6)};
  intervals[0].fixed_offset = 20;
  const OffsetPlan plan = Plan(intervals);
  EXPECT_EQ(plan.peak_bytes, 60);
  intervals[1].fixed_offset = 25;
  EXPECT_THAT(ErrorOf(intervals), HasSubstr("intervals 0 and 1: their fixed offsets overlap"));
}

TEST(OffsetPlannerTest, ErrorsNameTheInterval) {
  EXPECT_THAT(ErrorOf({Make(1, 0, 1), Make(-1, 0, 1)}), HasSubstr("interval 1: size -1 is negative"));
  EXPECT_THAT(ErrorOf({Make(1, 3, 3)}), HasSubstr("interval 0: lifetime [3, 3) is empty"));
  EXPECT_THAT(ErrorOf({Make(1, 0, 1, 3)}), HasSubstr("alignment 3 is not a power of two"));
  EXPECT_THAT(ErrorOf({Make(1, 0, 1, 0)}), HasSubstr("alignment 0 is not a power of two"));
  EXPECT_THAT(ErrorOf({Make(INT64_MAX, 0, 1)}), HasSubstr("exceeds"));
  EXPECT_THAT(ErrorOf({Make(int64_t{1} << 59, 0, 1), Make(int64_t{1} << 59, 5, 6)}),
              HasSubstr("add up to more than"));
  std::vector<Interval> intervals = {Make(4, 0, 8, 4)};
  intervals[0].gaps = {{4, 9}};
  EXPECT_THAT(ErrorOf(intervals), HasSubstr("gap [4, 9) does not lie in its lifetime [0, 8)"));
  intervals[0].gaps.clear();
  intervals[0].fixed_offset = 6;
  EXPECT_THAT(ErrorOf(intervals), HasSubstr("fixed offset 6 is not a multiple of its alignment 4"));
  intervals[0].fixed_offset = -4;
  EXPECT_THAT(ErrorOf(intervals), HasSubstr("fixed offset -4 is outside"));
  OffsetPlannerOptions options;
  options.effort = -1;
  EXPECT_THAT(ErrorOf({}, options), HasSubstr("effort -1 is negative"));
}

TEST(OffsetPlannerTest, ACapacityThatDoesNotSufficeIsTyped) {
  OffsetPlannerOptions options;
  options.capacity_bytes = 150;
  const Result<OffsetPlan> plan =
      PlanOffsets(std::vector<Interval>{Make(100, 0, 2), Make(60, 1, 3)}, options);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), StatusCode::kResourceExhausted);
  ASSERT_NE(plan.status().memory_shortage(), nullptr);
  EXPECT_EQ(plan.status().memory_shortage()->needed_bytes, 160u);
  EXPECT_EQ(plan.status().memory_shortage()->available_bytes, 150u);
  EXPECT_EQ(plan.status().memory_shortage()->largest_contributors.at(0).bytes, 100u);
  options.capacity_bytes = 160;
  EXPECT_EQ(Plan({Make(100, 0, 2), Make(60, 1, 3)}, options).peak_bytes, 160);
}

// Every layout that cannot be pushed down arises when the buffers are put, in some order, at their lowest
// free offset; so trying all orders finds the optimum.
int64_t OptimumOf(const PackingProblem& problem) {
  std::vector<size_t> order(problem.items.size());
  std::iota(order.begin(), order.end(), 0);
  int64_t best = INT64_MAX;
  const auto collide = [&](const PackingItem& a, int64_t a_offset, const PackingItem& b, int64_t b_offset) {
    for (const PackingSegment& x : a.segments) {
      for (const PackingSegment& y : b.segments) {
        if (x.begin < y.end && y.begin < x.end && a_offset < b_offset + y.size &&
            b_offset < a_offset + x.size) {
          return true;
        }
      }
    }
    return false;
  };
  do {
    std::vector<int64_t> offsets(problem.items.size());
    int64_t peak = 0;
    for (size_t i = 0; i < order.size() && peak < best; ++i) {
      const PackingItem& item = problem.items[order[i]];
      int64_t offset = 0;
      const auto blocked = [&] {
        for (size_t j = 0; j < i; ++j) {
          if (collide(item, offset, problem.items[order[j]], offsets[order[j]])) return true;
        }
        return false;
      };
      while (blocked()) offset += item.alignment;
      offsets[order[i]] = offset;
      peak = std::max(peak, offset + item.max_size);
    }
    best = std::min(best, peak);
  } while (std::next_permutation(order.begin(), order.end()));
  return order.empty() ? 0 : best;
}

class OptimumTest : public ::testing::TestWithParam<int> {};

TEST_P(OptimumTest, PlannerAndSearchFindTheBestOfAllLayouts) {
  RandomIntervalOptions options;
  options.alignments = (GetParam() & 1) != 0;
  options.gaps = (GetParam() & 2) != 0;
  options.groups = (GetParam() & 4) != 0;
  std::mt19937_64 random(static_cast<uint64_t>(GetParam()) + 1);
  int above_bound = 0;
  for (int round = 0; round < 150; ++round) {
    options.count = testing::Draw(random, 2, 6);
    options.steps = testing::Draw(random, 2, 9);
    options.max_size = testing::Draw(random, 3, 16);
    const std::vector<Interval> intervals = RandomIntervals(random, options);
    const Result<NormalizedIntervals> normalized = NormalizeIntervals(intervals);
    ASSERT_TRUE(normalized.ok());
    const PackingProblem& problem = normalized->problem;
    const int64_t optimum = OptimumOf(problem);
    above_bound += optimum > problem.lower_bound ? 1 : 0;
    EXPECT_EQ(Plan(intervals).peak_bytes, optimum * normalized->unit_bytes) << "round " << round;
    if (problem.items.empty()) continue;
    SkylineSearch search(problem);
    EXPECT_EQ(search.Run(optimum - 1, {}, 1'000'000), SkylineSearch::Outcome::kInfeasible)
        << "round " << round;
    ASSERT_EQ(search.Run(optimum, {}, 1'000'000), SkylineSearch::Outcome::kFound) << "round " << round;
    EXPECT_LE(PackingPeak(problem, search.layout()), optimum);
  }
  // So few buffers of one size each and without gaps always reach the bound.
  if (options.gaps) {
    EXPECT_GT(above_bound, 0) << "the instances are all trivial";
  }
}

INSTANTIATE_TEST_SUITE_P(Features, OptimumTest, ::testing::Range(0, 8));

TEST(OffsetPlannerTest, RandomLayoutsAreValidAndRepeatable) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 80; ++round) {
    RandomIntervalOptions options;
    options.count = testing::Draw(random, 1, 120);
    options.steps = testing::Draw(random, 1, 60);
    options.max_size = testing::Draw(random, 1, 5000);
    options.alignments = round % 2 == 1;
    options.gaps = round % 3 == 1;
    options.groups = round % 5 == 1;
    std::vector<Interval> intervals = RandomIntervals(random, options);
    OffsetPlannerOptions planner;
    planner.effort = 1;
    const OffsetPlan plan = Plan(intervals, planner);
    EXPECT_EQ(Plan(intervals, planner).offsets, plan.offsets);
    // Fixing what was planned keeps it possible.
    for (size_t i = 0; i < intervals.size(); i += 3) intervals[i].fixed_offset = plan.offsets[i];
    if (options.groups) continue;  // members could be fixed apart from each other's alignment
    ExpectValid(intervals, Plan(intervals, planner));
  }
}

TEST(OffsetPlannerTest, MoreEffortNeverGivesAHigherPeak) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 6; ++round) {
    const std::vector<Interval> intervals = PerfectPacking(random, 120, 300, 4000);
    int64_t peak = INT64_MAX;
    for (const int64_t effort : {0, 1, 2, 4}) {
      OffsetPlannerOptions options;
      options.effort = effort;
      const OffsetPlan plan = Plan(intervals, options);
      EXPECT_LE(plan.search_nodes, effort * kSearchNodesPerEffort);
      EXPECT_LE(plan.peak_bytes, peak);
      peak = plan.peak_bytes;
    }
  }
}

TEST(OffsetPlannerTest, LayoutsWithoutWasteAreFound) {
  std::mt19937_64 random(3);
  int beyond_greedy = 0;
  for (int round = 0; round < 12; ++round) {
    const std::vector<Interval> intervals = PerfectPacking(random, 60, 200, 1000);
    OffsetPlannerOptions greedy;
    greedy.effort = 0;
    beyond_greedy += Plan(intervals, greedy).peak_bytes > 1000 ? 1 : 0;
    OffsetPlannerOptions options;
    options.effort = 40;
    const OffsetPlan plan = Plan(intervals, options);
    EXPECT_EQ(plan.lower_bound_bytes, 1000);
    EXPECT_EQ(plan.peak_bytes, 1000) << "round " << round;
  }
  EXPECT_GE(beyond_greedy, 6) << "too easy to test the search";
}

TEST(OffsetPlannerTest, ACapacityEndsTheSearchEarly) {
  std::mt19937_64 random(4);
  const std::vector<Interval> intervals = PerfectPacking(random, 150, 400, 5000);
  OffsetPlannerOptions options;
  options.good_enough_bytes = 5500;
  const OffsetPlan roomy = Plan(intervals, options);
  EXPECT_LE(roomy.peak_bytes, 5500);
  options.good_enough_bytes.reset();
  EXPECT_GE(Plan(intervals, options).search_nodes, roomy.search_nodes);
}

TEST(OffsetPlannerTest, ATransformerOfTenThousandNodesNeedsNoSearch) {
  const std::vector<Interval> intervals = testing::TransformerIntervals(10'000 / 18, 512, 1024);
  const OffsetPlan plan = Plan(intervals);
  EXPECT_EQ(plan.peak_bytes, plan.lower_bound_bytes);
  EXPECT_EQ(plan.search_nodes, 0);
}

TEST(OffsetPlannerTest, ManyLongLivedBuffersStayCheap) {
  // 5,000 buffers, most of them live together: the search is left out, the greedy orders still work.
  std::mt19937_64 random(9);
  std::vector<Interval> intervals;
  for (int64_t i = 0; i < 5000; ++i) {
    intervals.push_back(Make(testing::Draw(random, 1, 1 << 20), testing::Draw(random, 0, 2000),
                             testing::Draw(random, 3000, 5000)));
  }
  const OffsetPlan plan = Plan(intervals);
  EXPECT_LE(plan.peak_bytes, plan.lower_bound_bytes * 11 / 10);
}

}  // namespace
}  // namespace lamina
