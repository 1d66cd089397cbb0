// A best-fit allocator with coalescing (BFC) over a device's raw allocator: takes memory in regions, cuts
// them into chunks, and joins free neighbours again. Sessions whose shapes are not all bounded take their
// buffers from it.
//
// The keys, defaults and growth rules are those of ONNX Runtime's arena (arena.extend_strategy, ...); two
// things are stricter: max_mem bounds everything the arena holds, reserves included, and before the arena
// refuses a request for that limit it gives its wholly free regions back and tries again.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/option_table.h"
#include "lamina/status.h"
#include "provider/allocator.h"

namespace lamina {

struct BfcArenaConfig {
  enum class ExtendStrategy {
    kNextPowerOfTwo,   // regions double in size
    kSameAsRequested,  // a region is as large as the request that needs it
  };
  ExtendStrategy extend_strategy = ExtendStrategy::kNextPowerOfTwo;
  // The first region, and the second one (also the first after Shrink), of kNextPowerOfTwo.
  uint64_t initial_chunk_size_bytes = uint64_t{1} << 20;
  uint64_t initial_growth_chunk_size_bytes = uint64_t{2} << 20;
  // Regions stop doubling here.
  uint64_t max_power_of_two_extend_bytes = uint64_t{1} << 30;
  // A free chunk that would waste at least this much is split, however small the waste is beside it.
  uint64_t max_dead_bytes_per_chunk = uint64_t{128} << 20;
  // Most bytes held from the raw allocator, reserves included.
  uint64_t max_mem = UINT64_MAX;
};

// The options arena.extend_strategy (0 or 1, or the names), arena.initial_chunk_size_bytes,
// arena.max_dead_bytes_per_chunk, arena.initial_growth_chunk_size_bytes, arena.max_power_of_two_extend_bytes
// and arena.max_mem.
const OptionTable& ArenaOptionTable();
// `values` of that table.
BfcArenaConfig ArenaConfigOf(const OptionValues& values);

// Thread-safe.
class BfcArena : public Allocator {
 public:
  // Every size and address is a multiple of this.
  static constexpr uint64_t kGranuleBytes = 256;

  // `raw` must outlive the arena; its addresses are aligned to kGranuleBytes.
  explicit BfcArena(Allocator& raw, const BfcArenaConfig& config = {});
  // Gives everything back, also what is still in use.
  ~BfcArena() override;
  BfcArena(const BfcArena&) = delete;
  BfcArena& operator=(const BfcArena&) = delete;

  Device device() const override { return raw_.device(); }
  MemoryKind memory_kind() const override { return raw_.memory_kind(); }

  Result<void*> Alloc(uint64_t bytes) override;
  // From Alloc or Reserve. An address that is neither is logged as a warning and left alone.
  void Free(void* memory) override;
  // Straight from the raw allocator, inside max_mem; goes back to it when freed.
  Result<void*> Reserve(uint64_t bytes) override;
  AllocatorStats GetStats() const override;

  // Gives back the regions in which nothing is in use.
  void Shrink();

  // INTERNAL naming what is wrong in the arena's own books; for tests.
  Status CheckInvariants() const;

 private:
  static constexpr int kBinCount = 21;  // 256 B, 512 B, ..., 256 MiB and larger

  // A piece of a region. Chunks of a region are linked in address order, free ones also in their bin by size
  // and address. The links are in the chunk so that freeing needs no memory.
  struct Chunk {
    std::byte* memory = nullptr;
    uint64_t bytes = 0;
    Chunk* previous = nullptr;
    Chunk* next = nullptr;
    Chunk* bin_previous = nullptr;
    Chunk* bin_next = nullptr;
    bool in_use = false;
  };

  static int BinOf(uint64_t bytes);
  uint64_t first_growth_bytes() const {
    return std::max(config_.initial_growth_chunk_size_bytes, kGranuleBytes);
  }
  uint64_t available_bytes() const { return config_.max_mem - stats_.total_allocated_bytes; }

  // All REQUIRE mutex_ to be held.
  Chunk* TakeFreeChunk(uint64_t bytes);
  bool SplitsFor(const Chunk& chunk, uint64_t bytes) const;
  Status Extend(uint64_t bytes);
  uint64_t NextRegionBytes(uint64_t bytes) const;
  void ReleaseFreeRegions();
  Chunk* JoinNeighbors(Chunk* chunk);
  void InsertFree(Chunk* chunk);
  void EraseFree(Chunk* chunk);
  Chunk* NewChunk();
  void RecycleChunk(Chunk* chunk);
  void CountAllocation(uint64_t bytes);
  Status Shortage(uint64_t bytes, uint64_t available) const;

  Allocator& raw_;
  const BfcArenaConfig config_;

  mutable std::mutex mutex_;
  std::deque<Chunk> chunks_;      // storage; addresses are stable
  Chunk* spare_chunk_ = nullptr;  // of chunks_, unused; linked by next
  std::vector<Chunk*> regions_;   // the first chunk of each
  std::array<Chunk*, kBinCount> free_bins_{};
  std::unordered_map<void*, Chunk*> used_chunks_;
  std::unordered_map<void*, uint64_t> reserves_;  // bytes of each
  uint64_t next_region_bytes_ = 0;
  bool extended_ = false;  // once, ever
  AllocatorStats stats_;
};

}  // namespace lamina
