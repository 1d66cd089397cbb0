// Sets of intervals for tests of the offset planner, and the check of its layouts.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "memory/offset_planner.h"
#include "plan/layout_validator.h"

namespace lamina::testing {

inline int64_t Draw(std::mt19937_64& random, int64_t low,
                    int64_t high) {  // inclusive, the same on every library
  return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
}

struct RandomIntervalOptions {
  int64_t count = 10;
  int64_t steps = 10;
  int64_t max_size = 16;
  bool alignments = false;
  bool gaps = false;
  bool groups = false;
};

inline std::vector<Interval> RandomIntervals(std::mt19937_64& random, const RandomIntervalOptions& options) {
  std::vector<Interval> intervals;
  for (int64_t i = 0; i < options.count; ++i) {
    Interval interval;
    interval.lower = Draw(random, 0, options.steps - 1);
    interval.upper = Draw(random, interval.lower + 1, options.steps);
    interval.size_bytes = Draw(random, 0, options.max_size);
    if (options.alignments) interval.alignment = int64_t{1} << Draw(random, 0, 3);
    if (options.gaps && interval.upper - interval.lower >= 3 && Draw(random, 0, 1) == 0) {
      const int64_t lower = Draw(random, interval.lower + 1, interval.upper - 2);
      interval.gaps.push_back({lower, Draw(random, lower + 1, interval.upper - 1)});
    }
    if (options.groups && Draw(random, 0, 2) == 0) interval.alias_group = Draw(random, 0, 2);
    intervals.push_back(std::move(interval));
  }
  return intervals;
}

// Cuts the rectangle steps x capacity into `count` rectangles: a layout without any waste exists, and every
// step's live bytes are the capacity. Hard for greedy orders.
inline std::vector<Interval> PerfectPacking(std::mt19937_64& random, int64_t count, int64_t steps,
                                            int64_t capacity) {
  struct Rectangle {
    int64_t lower, upper, bottom, top;
    int64_t area() const { return (upper - lower) * (top - bottom); }
  };
  std::vector<Rectangle> rectangles = {{0, steps, 0, capacity}};
  while (static_cast<int64_t>(rectangles.size()) < count) {
    // Mostly the larger of two, so that sizes stay mixed but not extreme.
    size_t chosen = static_cast<size_t>(Draw(random, 0, static_cast<int64_t>(rectangles.size()) - 1));
    const auto other = static_cast<size_t>(Draw(random, 0, static_cast<int64_t>(rectangles.size()) - 1));
    if (rectangles[other].area() > rectangles[chosen].area()) chosen = other;
    Rectangle& whole = rectangles[chosen];
    Rectangle rest = whole;
    if (Draw(random, 0, 1) == 0) {
      if (whole.upper - whole.lower < 2) continue;
      rest.lower = whole.upper = Draw(random, whole.lower + 1, whole.upper - 1);
    } else {
      if (whole.top - whole.bottom < 2) continue;
      rest.bottom = whole.top = Draw(random, whole.bottom + 1, whole.top - 1);
    }
    rectangles.push_back(rest);
  }
  std::vector<Interval> intervals;
  for (const Rectangle& rectangle : rectangles) {
    Interval interval;
    interval.size_bytes = rectangle.top - rectangle.bottom;
    interval.lower = rectangle.lower;
    interval.upper = rectangle.upper;
    intervals.push_back(std::move(interval));
  }
  return intervals;
}

// The values of a decoder with `layers` layers: residual stream, projections, attention, gated feed-forward,
// and the workspace of each node, aligned to 256.
inline std::vector<Interval> TransformerIntervals(int64_t layers, int64_t tokens, int64_t hidden) {
  std::vector<Interval> intervals;
  int64_t step = 0;
  const auto add = [&](int64_t size, int64_t lower, int64_t upper) {
    Interval interval;
    interval.size_bytes = size;
    interval.alignment = 256;
    interval.lower = lower;
    interval.upper = upper;
    intervals.push_back(std::move(interval));
  };
  const int64_t row = tokens * hidden * 4;
  for (int64_t layer = 0; layer < layers; ++layer) {
    const int64_t s = step;
    add(row, s, s + 12);           // residual in, read by the sum after attention
    add(row, s + 1, s + 5);        // norm, read by q, k, v
    add(row, s + 2, s + 6);        // q
    add(row / 4, s + 3, s + 7);    // k
    add(row / 4, s + 4, s + 8);    // v
    add(row, s + 6, s + 8);        // rotated q
    add(row / 4, s + 7, s + 9);    // rotated k
    add(row, s + 8, s + 10);       // attention
    add(2 * row, s + 8, s + 9);    // its workspace
    add(row, s + 10, s + 12);      // output projection
    add(row, s + 11, s + 18);      // residual
    add(row, s + 12, s + 15);      // norm
    add(4 * row, s + 13, s + 16);  // gate
    add(4 * row, s + 14, s + 16);  // up
    add(4 * row, s + 15, s + 18);  // product
    add(row, s + 17, s + 19);      // down
    add(tokens * 4, s + 1, s + 2);
    add(tokens * 4, s + 12, s + 13);
    step += 18;
  }
  return intervals;
}

inline std::vector<PlacedBuffer> Placed(const std::vector<Interval>& intervals,
                                        const std::vector<int64_t>& offsets) {
  std::vector<PlacedBuffer> buffers;
  for (size_t i = 0; i < intervals.size(); ++i) {
    const Interval& interval = intervals[i];
    PlacedBuffer buffer;
    buffer.name = std::to_string(i);
    buffer.size_bytes = interval.size_bytes;
    buffer.alignment = interval.alignment;
    buffer.lower = interval.lower;
    buffer.upper = interval.upper;
    buffer.offset = offsets[i];
    for (const StepRange& gap : interval.gaps) buffer.gaps.emplace_back(gap.lower, gap.upper);
    buffer.alias_group = interval.alias_group;
    buffers.push_back(std::move(buffer));
  }
  return buffers;
}

// The validator accepts the plan and counts the same peak and bound.
inline void ExpectValid(const std::vector<Interval>& intervals, const OffsetPlan& plan) {
  ASSERT_EQ(plan.offsets.size(), intervals.size());
  const Result<LayoutReport> report = ValidateLayout(Placed(intervals, plan.offsets));
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(report->peak_bytes, plan.peak_bytes);
  for (size_t i = 0; i < intervals.size(); ++i) {
    EXPECT_EQ(plan.offsets[i], intervals[i].fixed_offset.value_or(plan.offsets[i]));
  }
  // Fixed offsets may force the planner's bound above what the live bytes say.
  EXPECT_GE(plan.lower_bound_bytes, report->lower_bound_bytes);
  EXPECT_GE(plan.peak_bytes, plan.lower_bound_bytes);
}

}  // namespace lamina::testing
