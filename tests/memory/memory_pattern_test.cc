#include "memory/memory_pattern.h"

#include <gtest/gtest.h>

#include <thread>

namespace lamina {
namespace {

constexpr Device kCpu = {};
constexpr Device kGpu = {DeviceKind::kGpu, 0};

MemoryPatternGroup Finish(const MemoryPatternTracer& tracer) {
  Result<MemoryPatternGroup> group = tracer.Finish();
  EXPECT_TRUE(group.ok()) << group.status().ToString();
  return group.ok() ? *std::move(group) : MemoryPatternGroup();
}

TEST(MemoryPatternTest, BuffersThatAreNotLiveTogetherShareBytes) {
  MemoryPatternTracer tracer;
  tracer.Allocated(kCpu, 1, 1000);
  tracer.Allocated(kCpu, 2, 500);
  tracer.Freed(kCpu, 1);
  tracer.Allocated(kCpu, 3, 900);
  tracer.Freed(kCpu, 2);
  tracer.Allocated(kGpu, 4, 1);
  const MemoryPatternGroup group = Finish(tracer);
  const MemoryPattern* cpu = group.Find(kCpu);
  ASSERT_NE(cpu, nullptr);
  EXPECT_EQ(cpu->peak_bytes(), 1024 + 512);
  EXPECT_EQ(cpu->lower_bound_bytes(), cpu->peak_bytes());
  EXPECT_EQ(cpu->Find(1)->offset_bytes, cpu->Find(3)->offset_bytes);
  EXPECT_NE(cpu->Find(1)->offset_bytes, cpu->Find(2)->offset_bytes);
  EXPECT_EQ(cpu->Find(3)->size_bytes, 900);
  EXPECT_FALSE(cpu->Find(4).has_value());
  EXPECT_EQ(group.Find(kGpu)->peak_bytes(), 256);
  EXPECT_EQ(group.Find({DeviceKind::kGpu, 1}), nullptr);
}

// The first free gap that fits misleads an online allocator; a plan knows what is still to come.
TEST(MemoryPatternTest, ThePlanLooksAhead) {
  MemoryPatternTracer tracer;
  tracer.Allocated(kCpu, 1, 2048);
  tracer.Allocated(kCpu, 2, 256);
  tracer.Freed(kCpu, 1);
  tracer.Allocated(kCpu, 3, 4096);
  const MemoryPatternGroup group = Finish(tracer);
  EXPECT_EQ(group.Find(kCpu)->peak_bytes(), 4096 + 256);
}

TEST(MemoryPatternTest, AValueOfALoopKeepsOneBlock) {
  MemoryPatternTracer tracer;
  for (int64_t trip = 1; trip <= 3; ++trip) {
    tracer.Allocated(kCpu, 1, 256 * trip);
    tracer.Freed(kCpu, 1);
    tracer.Allocated(kCpu, 2, 512);
    tracer.Freed(kCpu, 2);
  }
  tracer.Freed(kCpu, 1);   // again
  tracer.Freed(kCpu, 99);  // never allocated
  const MemoryPatternGroup group = Finish(tracer);
  EXPECT_EQ(group.Find(kCpu)->Find(1)->size_bytes, 768);
  EXPECT_EQ(group.Find(kCpu)->peak_bytes(), 768);
}

TEST(MemoryPatternTest, SizesThatMakeNoSenseAreErrors) {
  MemoryPatternTracer tracer;
  tracer.Allocated(kCpu, 1, INT64_MAX);
  EXPECT_EQ(tracer.Finish().status().code(), StatusCode::kInvalidArgument);
}

TEST(MemoryPatternCacheTest, PatternsAreFoundByAllShapes) {
  MemoryPatternCache cache;
  const std::vector<Shape> shapes = {{2, 3}, {4}};
  EXPECT_FALSE(cache.Find(shapes).seen_before);
  EXPECT_TRUE(cache.Find(shapes).seen_before);
  EXPECT_EQ(cache.Find(shapes).patterns, nullptr);
  const auto first = cache.Insert(shapes, {});
  EXPECT_EQ(cache.Find(shapes).patterns, first);
  EXPECT_EQ(cache.Insert(shapes, {}), first) << "the first trace stays";
  // The same numbers in other shapes.
  EXPECT_EQ(cache.Find(std::vector<Shape>{{2}, {3, 4}}).patterns, nullptr);
  EXPECT_EQ(cache.Find(std::vector<Shape>{{2, 3}, {5}}).patterns, nullptr);
  EXPECT_EQ(cache.Find(std::vector<Shape>{{2, 3, 4}}).patterns, nullptr);
}

TEST(MemoryPatternCacheTest, TheLeastRecentlyUsedGoes) {
  MemoryPatternCache cache(2);
  const std::vector<Shape> a = {{1}}, b = {{2}}, c = {{3}};
  cache.Insert(a, {});
  cache.Insert(b, {});
  EXPECT_NE(cache.Find(a).patterns, nullptr);
  cache.Insert(c, {});
  EXPECT_EQ(cache.size(), 2u);
  EXPECT_NE(cache.Find(a).patterns, nullptr);
  EXPECT_NE(cache.Find(c).patterns, nullptr);
  EXPECT_EQ(cache.Find(b).patterns, nullptr);
}

TEST(MemoryPatternCacheTest, RunsShareIt) {
  MemoryPatternCache cache(4);
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&cache, t] {
      for (int64_t i = 0; i < 500; ++i) {
        const std::vector<Shape> shapes = {{(i + t) % 8}};
        if (!cache.Find(shapes).patterns) cache.Insert(shapes, {});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cache.size(), 4u);
}

}  // namespace
}  // namespace lamina
