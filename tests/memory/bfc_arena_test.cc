#include "memory/bfc_arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <thread>

#include "base/error.h"

namespace lamina {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Host memory with a cap, a count of everything, and failures on demand.
class FakeRawAllocator : public Allocator {
 public:
  explicit FakeRawAllocator(uint64_t cap_bytes = UINT64_MAX) : cap_bytes_(cap_bytes) {}
  ~FakeRawAllocator() override {
    EXPECT_TRUE(sizes_.empty()) << "not everything was given back";
    for (const auto& [memory, bytes] : sizes_) std::free(memory);
  }

  Device device() const override { return {DeviceKind::kGpu, 1}; }
  Result<void*> Alloc(uint64_t bytes) override {
    const std::scoped_lock lock(mutex_);
    requests_.push_back(bytes);
    if (fail_in_ == 0 || bytes > cap_bytes_ - held_bytes_) {
      return Status::OutOfMemory("raw allocator", {"gpu:1", bytes, cap_bytes_ - held_bytes_, {}});
    }
    if (fail_in_ > 0) --fail_in_;
    void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    sizes_[memory] = bytes;
    held_bytes_ += bytes;
    return memory;
  }
  void Free(void* memory) override {
    const std::scoped_lock lock(mutex_);
    const auto it = sizes_.find(memory);
    ASSERT_NE(it, sizes_.end());
    held_bytes_ -= it->second;
    sizes_.erase(it);
    std::free(memory);
  }
  AllocatorStats GetStats() const override { return {}; }

  // After `successes` more allocations every one fails; negative: never.
  void FailAfter(int64_t successes) { fail_in_ = successes; }
  uint64_t held_bytes() const { return held_bytes_; }
  const std::vector<uint64_t>& requests() const { return requests_; }

 private:
  std::mutex mutex_;
  uint64_t cap_bytes_;
  uint64_t held_bytes_ = 0;
  int64_t fail_in_ = -1;
  std::map<void*, uint64_t> sizes_;
  std::vector<uint64_t> requests_;
};

void* Get(BfcArena& arena, uint64_t bytes) {
  const Result<void*> memory = arena.Alloc(bytes);
  EXPECT_TRUE(memory.ok()) << memory.status().ToString();
  return memory.ok() ? *memory : nullptr;
}

void ExpectSound(const BfcArena& arena) {
  const Status status = arena.CheckInvariants();
  EXPECT_TRUE(status.ok()) << status.ToString();
}

BfcArenaConfig SameAsRequested() {
  BfcArenaConfig config;
  config.extend_strategy = BfcArenaConfig::ExtendStrategy::kSameAsRequested;
  return config;
}

TEST(BfcArenaTest, FreedNeighboursJoinAndAreUsedAgain) {
  FakeRawAllocator raw;
  BfcArena arena(raw);
  void* a = Get(arena, 1000);
  void* b = Get(arena, 1);
  void* c = Get(arena, 0);
  EXPECT_NE(b, c);
  EXPECT_EQ(arena.GetStats().in_use_bytes, 1024u + 256 + 256);
  arena.Free(a);
  arena.Free(c);
  ExpectSound(arena);
  arena.Free(b);
  ExpectSound(arena);
  EXPECT_EQ(Get(arena, 700 << 10), a) << "one free chunk again";
  EXPECT_EQ(arena.GetStats().num_arena_extensions, 1u);
  arena.Free(a);
  arena.Free(nullptr);
}

TEST(BfcArenaTest, RegionsDoubleUpToTheLimit) {
  FakeRawAllocator raw;
  BfcArenaConfig config;
  config.initial_chunk_size_bytes = 1024;
  config.initial_growth_chunk_size_bytes = 2048;
  config.max_power_of_two_extend_bytes = 8192;
  BfcArena arena(raw, config);
  for (int i = 0; i < 40; ++i) Get(arena, 1024);
  EXPECT_THAT(raw.requests(), ElementsAre(1024, 2048, 4096, 8192, 8192, 8192, 8192, 8192));
  Get(arena, 20'000);  // above the limit: exactly as large as needed
  EXPECT_EQ(raw.requests().back(), 20'224u);
}

TEST(BfcArenaTest, ALargeRequestDoublesUntilItFits) {
  FakeRawAllocator raw;
  BfcArena arena(raw);
  Get(arena, 5 << 20);
  EXPECT_THAT(raw.requests(), ElementsAre(8 << 20));
}

TEST(BfcArenaTest, SameAsRequestedGrowsByTheRequest) {
  FakeRawAllocator raw;
  BfcArena arena(raw, SameAsRequested());
  Get(arena, 300);
  Get(arena, 5000);
  EXPECT_THAT(raw.requests(), ElementsAre(512, 5120));
}

TEST(BfcArenaTest, SplitsWhereHalfOrTooMuchWouldBeWasted) {
  FakeRawAllocator raw;
  BfcArenaConfig config = SameAsRequested();
  config.max_dead_bytes_per_chunk = 4096;
  BfcArena arena(raw, config);
  arena.Free(Get(arena, 10'240));
  void* most = Get(arena, 7168);  // 3072 wasted: neither half nor 4096
  EXPECT_EQ(arena.GetStats().in_use_bytes, 10'240u);
  arena.Free(most);
  void* some = Get(arena, 6144);  // 4096 wasted
  EXPECT_EQ(arena.GetStats().in_use_bytes, 6144u);
  arena.Free(some);
  Get(arena, 5120);  // half
  EXPECT_EQ(arena.GetStats().in_use_bytes, 5120u);
  EXPECT_EQ(raw.requests().size(), 1u);
}

TEST(BfcArenaTest, TheLimitCountsReserves) {
  FakeRawAllocator raw;
  BfcArenaConfig config = SameAsRequested();
  config.max_mem = 10'240;
  BfcArena arena(raw, config);
  const Result<void*> reserve = arena.Reserve(6000);
  ASSERT_TRUE(reserve.ok());
  const Result<void*> memory = arena.Alloc(4352);
  ASSERT_FALSE(memory.ok());
  EXPECT_EQ(memory.status().code(), StatusCode::kResourceExhausted);
  ASSERT_NE(memory.status().memory_shortage(), nullptr);
  EXPECT_EQ(memory.status().memory_shortage()->device, "gpu:1");
  EXPECT_EQ(memory.status().memory_shortage()->needed_bytes, 4352u);
  EXPECT_EQ(memory.status().memory_shortage()->available_bytes, 10'240u - 6144);
  EXPECT_THAT(memory.status().message(),
              HasSubstr("available memory of 4096 is smaller than requested bytes of 4352"));
  EXPECT_FALSE(arena.Reserve(4097).ok());
  EXPECT_FALSE(arena.Alloc(UINT64_MAX).ok());
  EXPECT_FALSE(arena.Reserve(UINT64_MAX - 300).ok());
  EXPECT_NE(Get(arena, 4096), nullptr);
  ExpectSound(arena);
  arena.Free(*reserve);
  EXPECT_EQ(raw.held_bytes(), 4096u);
}

TEST(BfcArenaTest, FreeRegionsMakeRoomUnderTheLimit) {
  FakeRawAllocator raw;
  BfcArenaConfig config = SameAsRequested();
  config.max_mem = 8192;
  BfcArena arena(raw, config);
  void* small = Get(arena, 4096);
  arena.Free(small);
  EXPECT_NE(Get(arena, 8192), nullptr) << "the region of 4096 stands in the way";
  EXPECT_EQ(arena.GetStats().num_arena_shrinkages, 1u);
  ExpectSound(arena);
}

TEST(BfcArenaTest, AGrowingRegionIsCutToTheLimit) {
  FakeRawAllocator raw;
  BfcArenaConfig config;
  config.max_mem = 1'000'000;  // below the initial chunk, and no multiple of 256
  BfcArena arena(raw, config);
  Get(arena, 1000);
  EXPECT_THAT(raw.requests(), ElementsAre(999'936));
}

TEST(BfcArenaTest, ARefusedRegionShrinksTowardsTheRequest) {
  FakeRawAllocator raw(700'000);
  BfcArena arena(raw);
  Get(arena, 1000);
  ASSERT_GE(raw.requests().size(), 2u);
  EXPECT_EQ(raw.requests()[0], 1u << 20);
  EXPECT_LE(raw.requests().back(), 700'000u);
  for (size_t i = 1; i < raw.requests().size(); ++i) EXPECT_LT(raw.requests()[i], raw.requests()[i - 1]);
  const Result<void*> memory = arena.Alloc(800'000);
  ASSERT_FALSE(memory.ok());
  EXPECT_EQ(memory.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(memory.status().memory_shortage(), nullptr);
  EXPECT_THAT(memory.status().message(),
              HasSubstr("failed to allocate memory for requested buffer of size 800000"));
  ExpectSound(arena);
}

TEST(BfcArenaTest, ShrinkGivesFreeRegionsBack) {
  FakeRawAllocator raw;
  BfcArenaConfig config;
  config.initial_chunk_size_bytes = 1024;
  config.initial_growth_chunk_size_bytes = 4096;
  BfcArena arena(raw, config);
  void* kept = Get(arena, 1024);
  void* gone = Get(arena, 4096);
  arena.Free(gone);
  arena.Shrink();
  EXPECT_EQ(raw.held_bytes(), 1024u);
  EXPECT_EQ(arena.GetStats().total_allocated_bytes, 1024u);
  EXPECT_EQ(arena.GetStats().num_arena_shrinkages, 1u);
  Get(arena, 100);
  EXPECT_EQ(raw.requests().back(), 4096u) << "growth begins again";
  arena.Free(kept);
  ExpectSound(arena);
}

TEST(BfcArenaTest, Statistics) {
  FakeRawAllocator raw;
  BfcArenaConfig config;
  config.max_mem = 64 << 20;
  BfcArena arena(raw, config);
  void* a = Get(arena, 1000);
  void* b = Get(arena, 5000);
  arena.Free(a);
  void* r = *arena.Reserve(256);
  const AllocatorStats stats = arena.GetStats();
  EXPECT_EQ(stats.limit_bytes, 64u << 20);
  EXPECT_EQ(stats.in_use_bytes, 5120u + 256);
  EXPECT_EQ(stats.max_in_use_bytes, 1024u + 5120);
  EXPECT_EQ(stats.max_alloc_size_bytes, 5120u);
  EXPECT_EQ(stats.num_allocs, 3u);
  EXPECT_EQ(stats.num_reserves, 1u);
  EXPECT_EQ(stats.num_arena_extensions, 1u);
  EXPECT_EQ(stats.num_arena_shrinkages, 0u);
  EXPECT_EQ(stats.total_allocated_bytes, (1u << 20) + 256);
  arena.Free(b);
  arena.Free(r);
  EXPECT_EQ(arena.GetStats().in_use_bytes, 0u);
}

TEST(BfcArenaTest, AForeignAddressIsLeftAlone) {
  FakeRawAllocator raw;
  BfcArena arena(raw);
  int foreign = 0;
  arena.Free(&foreign);
  void* memory = Get(arena, 10);
  arena.Free(memory);
  arena.Free(memory);
  ExpectSound(arena);
}

TEST(BfcArenaTest, OptionsSetTheConfiguration) {
  EXPECT_TRUE(ArenaOptionTable().CheckConsistent().ok());
  OptionValues values(ArenaOptionTable());
  const BfcArenaConfig defaults = ArenaConfigOf(values);
  EXPECT_EQ(defaults.extend_strategy, BfcArenaConfig().extend_strategy);
  EXPECT_EQ(defaults.initial_chunk_size_bytes, BfcArenaConfig().initial_chunk_size_bytes);
  EXPECT_EQ(defaults.max_dead_bytes_per_chunk, BfcArenaConfig().max_dead_bytes_per_chunk);
  EXPECT_EQ(defaults.initial_growth_chunk_size_bytes, BfcArenaConfig().initial_growth_chunk_size_bytes);
  EXPECT_EQ(defaults.max_power_of_two_extend_bytes, BfcArenaConfig().max_power_of_two_extend_bytes);
  EXPECT_EQ(defaults.max_mem, UINT64_MAX);
  for (const char* flag :
       {"arena.extend_strategy=1", "arena.initial_chunk_size_bytes=4KiB", "arena.max_mem=1GiB",
        "arena.max_dead_bytes_per_chunk=7", "arena.initial_growth_chunk_size_bytes=8",
        "arena.max_power_of_two_extend_bytes=9"}) {
    ASSERT_TRUE(values.SetFromFlag(flag).ok()) << flag;
  }
  const BfcArenaConfig config = ArenaConfigOf(values);
  EXPECT_EQ(config.extend_strategy, BfcArenaConfig::ExtendStrategy::kSameAsRequested);
  EXPECT_EQ(config.initial_chunk_size_bytes, 4096u);
  EXPECT_EQ(config.max_dead_bytes_per_chunk, 7u);
  EXPECT_EQ(config.initial_growth_chunk_size_bytes, 8u);
  EXPECT_EQ(config.max_power_of_two_extend_bytes, 9u);
  EXPECT_EQ(config.max_mem, 1u << 30);
  EXPECT_FALSE(values.Set("arena.extend_strategy", "2").ok());
}

// Random requests with random failures of the raw allocator. Every live block holds its own pattern, so that
// blocks which overlap are seen.
void Stress(BfcArena& arena, FakeRawAllocator* failing, uint64_t seed, int rounds, bool check) {
  struct Block {
    std::byte* memory;
    uint64_t bytes;
    int mark;
  };
  std::mt19937_64 random(seed);
  std::vector<Block> live;
  const auto release = [&](size_t i) {
    for (uint64_t b = 0; b < live[i].bytes; b += 97)
      ASSERT_EQ(live[i].memory[b], static_cast<std::byte>(live[i].mark));
    arena.Free(live[i].memory);
    live[i] = live.back();
    live.pop_back();
  };
  for (int round = 0; round < rounds; ++round) {
    if (failing != nullptr && random() % 50 == 0) failing->FailAfter(static_cast<int64_t>(random() % 4) - 1);
    const uint64_t action = random() % 100;
    if (action < 55) {
      const uint64_t bytes = random() % (uint64_t{1} << (random() % 17));
      const Result<void*> memory = action < 4 ? arena.Reserve(bytes) : arena.Alloc(bytes);
      if (memory.ok()) {
        live.push_back({static_cast<std::byte*>(*memory), bytes, static_cast<int>(random() % 256)});
        EXPECT_EQ(reinterpret_cast<uintptr_t>(*memory) % 256, 0u);
        std::memset(*memory, live.back().mark, bytes);
      } else {
        EXPECT_EQ(memory.status().code(), StatusCode::kResourceExhausted);
      }
    } else if (action < 98) {
      if (!live.empty()) release(random() % live.size());
    } else {
      arena.Shrink();
    }
    const Status status = check ? arena.CheckInvariants() : Status();
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  while (!live.empty()) release(live.size() - 1);
}

TEST(BfcArenaTest, StressWithFailuresKeepsTheBooks) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    FakeRawAllocator raw(4 << 20);
    BfcArenaConfig config = seed % 2 == 0 ? SameAsRequested() : BfcArenaConfig();
    config.initial_chunk_size_bytes = 16 << 10;
    config.initial_growth_chunk_size_bytes = 16 << 10;
    config.max_power_of_two_extend_bytes = 256 << 10;
    config.max_mem = seed % 3 == 0 ? 1 << 20 : UINT64_MAX;
    BfcArena arena(raw, config);
    Stress(arena, &raw, seed, 3000, /*check=*/true);
    EXPECT_EQ(arena.GetStats().in_use_bytes, 0u);
    arena.Shrink();
    EXPECT_EQ(raw.held_bytes(), 0u) << "everything free joins into whole regions";
    EXPECT_EQ(arena.GetStats().total_allocated_bytes, 0u);
  }
}

TEST(BfcArenaTest, ThreadsShareIt) {
  FakeRawAllocator raw(16 << 20);
  BfcArena arena(raw);
  std::vector<std::thread> threads;
  for (uint64_t t = 1; t <= 4; ++t) {
    threads.emplace_back([&arena, t] { Stress(arena, nullptr, 100 + t, 2000, /*check=*/false); });
  }
  for (std::thread& thread : threads) thread.join();
  ExpectSound(arena);
  EXPECT_EQ(arena.GetStats().in_use_bytes, 0u);
}

}  // namespace
}  // namespace lamina
