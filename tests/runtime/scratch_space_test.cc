#include "runtime/scratch_space.h"

#include <gtest/gtest.h>

#include <cstring>

#include "providers/cpu/cpu_provider.h"

namespace lamina {
namespace {

TEST(ScratchSpaceTest, BuffersDoNotOverlapAndAreAligned) {
  HostAllocator allocator;
  ScratchSpace scratch(allocator);
  auto* a = static_cast<std::byte*>(*scratch.Take(100));
  auto* b = static_cast<std::byte*>(*scratch.Take(1));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % 256, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b) % 256, 0u);
  EXPECT_GE(std::abs(b - a), 256);
}

TEST(ScratchSpaceTest, SettlesOnOneBlockAndStopsAllocating) {
  HostAllocator allocator;
  ScratchSpace scratch(allocator);
  const auto step = [&] {
    const ScratchSpace::Mark mark = scratch.mark();
    for (const uint64_t bytes : {uint64_t{1} << 20, uint64_t{3} << 20, uint64_t{100}}) {
      std::memset(*scratch.Take(bytes), 1, bytes);
    }
    scratch.Rewind(mark);
  };
  step();
  step();
  const uint64_t allocations = allocator.GetStats().num_allocs;
  for (int i = 0; i < 10; ++i) step();
  EXPECT_EQ(allocator.GetStats().num_allocs, allocations);
}

TEST(ScratchSpaceTest, RewindingToAMarkKeepsWhatWasTakenBefore) {
  HostAllocator allocator;
  ScratchSpace scratch(allocator);
  auto* outer = static_cast<unsigned char*>(*scratch.Take(1 << 16));
  std::memset(outer, 7, 1 << 16);
  for (int i = 0; i < 5; ++i) {
    const ScratchSpace::Mark mark = scratch.mark();
    std::memset(*scratch.Take(uint64_t{1} << (16 + i)), 9, size_t{1} << (16 + i));
    scratch.Rewind(mark);
  }
  EXPECT_EQ(outer[0], 7);
  EXPECT_EQ(outer[(1 << 16) - 1], 7);
}

TEST(ScratchSpaceTest, GivesEverythingBack) {
  HostAllocator allocator;
  {
    ScratchSpace scratch(allocator);
    EXPECT_TRUE(scratch.Take(1 << 20).ok());
  }
  EXPECT_EQ(allocator.GetStats().in_use_bytes, 0u);
}

}  // namespace
}  // namespace lamina
