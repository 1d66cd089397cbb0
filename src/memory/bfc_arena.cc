#include "memory/bfc_arena.h"

#include <algorithm>
#include <bit>
#include <new>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace lamina {
namespace {

// A region that the raw allocator refuses is tried again at nine tenths, down to the request itself.
constexpr uint64_t kBackoffNumerator = 9;
constexpr uint64_t kBackoffDenominator = 10;
constexpr uint64_t kMinBackoffBytes = 8 << 10;

// 0 for sizes that cannot be rounded.
uint64_t RoundUp(uint64_t bytes) {
  if (bytes > UINT64_MAX - BfcArena::kGranuleBytes) return 0;
  return std::max((bytes + BfcArena::kGranuleBytes - 1) / BfcArena::kGranuleBytes, uint64_t{1}) *
         BfcArena::kGranuleBytes;
}

uint64_t Doubled(uint64_t bytes) { return bytes > UINT64_MAX / 2 ? UINT64_MAX : 2 * bytes; }

uint64_t RoundDown(uint64_t bytes) { return bytes / BfcArena::kGranuleBytes * BfcArena::kGranuleBytes; }

}  // namespace

const OptionTable& ArenaOptionTable() {
  static const OptionTable table({
      {.key = "arena.extend_strategy",
       .type = OptionType::kEnum,
       .default_text = "kNextPowerOfTwo",
       .choices = {"kNextPowerOfTwo", "kSameAsRequested", "0", "1"},
       .meaning = "How the arena grows: regions that double in size (0), or as large as the request that "
                  "needs one (1)"},
      {.key = "arena.initial_chunk_size_bytes",
       .type = OptionType::kBytes,
       .default_text = "1MiB",
       .meaning = "Size of the arena's first region with kNextPowerOfTwo"},
      {.key = "arena.max_dead_bytes_per_chunk",
       .type = OptionType::kBytes,
       .default_text = "128MiB",
       .meaning = "A free chunk is split once a request would leave this much of it unused, or half of it"},
      {.key = "arena.initial_growth_chunk_size_bytes",
       .type = OptionType::kBytes,
       .default_text = "2MiB",
       .meaning =
           "Size of the arena's second region with kNextPowerOfTwo, and of the first after it has shrunk"},
      {.key = "arena.max_power_of_two_extend_bytes",
       .type = OptionType::kBytes,
       .default_text = "1GiB",
       .meaning = "Regions of kNextPowerOfTwo stop doubling at this size"},
      {.key = "arena.max_mem",
       .type = OptionType::kBytes,
       .meaning = "Most bytes the arena may hold, reserves included",
       .when_unset = "no limit"},
  });
  return table;
}

BfcArenaConfig ArenaConfigOf(const OptionValues& values) {
  BfcArenaConfig config;
  const std::string strategy = values.Text("arena.extend_strategy");
  if (strategy == "kSameAsRequested" || strategy == "1") {
    config.extend_strategy = BfcArenaConfig::ExtendStrategy::kSameAsRequested;
  }
  config.initial_chunk_size_bytes = values.Bytes("arena.initial_chunk_size_bytes");
  config.max_dead_bytes_per_chunk = values.Bytes("arena.max_dead_bytes_per_chunk");
  config.initial_growth_chunk_size_bytes = values.Bytes("arena.initial_growth_chunk_size_bytes");
  config.max_power_of_two_extend_bytes = values.Bytes("arena.max_power_of_two_extend_bytes");
  if (values.HasValue("arena.max_mem")) config.max_mem = values.Bytes("arena.max_mem");
  return config;
}

BfcArena::BfcArena(Allocator& raw, const BfcArenaConfig& config)
    : raw_(raw),
      config_(config),
      next_region_bytes_(std::max(config.initial_chunk_size_bytes, kGranuleBytes)) {
  stats_.limit_bytes = config_.max_mem == UINT64_MAX ? 0 : config_.max_mem;
}

BfcArena::~BfcArena() {
  for (const Chunk* region : regions_) raw_.Free(region->memory);
  for (const auto& [memory, bytes] : reserves_) raw_.Free(memory);
}

int BfcArena::BinOf(uint64_t bytes) {
  return std::min(kBinCount - 1, static_cast<int>(std::bit_width(bytes / kGranuleBytes)) - 1);
}

Result<void*> BfcArena::Alloc(uint64_t bytes) {
  const uint64_t rounded = RoundUp(bytes);
  const std::scoped_lock lock(mutex_);
  if (rounded == 0) return Shortage(bytes, available_bytes());
  try {
    Chunk* chunk = TakeFreeChunk(rounded);
    if (chunk == nullptr) {
      LAMINA_RETURN_IF_ERROR(Extend(rounded));
      chunk = TakeFreeChunk(rounded);
    }
    if (chunk == nullptr)
      return InternalError("arena of {}: a region was added without room for it", device().ToString());
    CountAllocation(chunk->bytes);
    return static_cast<void*>(chunk->memory);
  } catch (const std::bad_alloc&) {
    return ResourceExhaustedError("arena of {}: no host memory for its own books", device().ToString());
  }
}

bool BfcArena::SplitsFor(const Chunk& chunk, uint64_t bytes) const {
  const uint64_t waste = chunk.bytes - bytes;
  return waste >= bytes || (waste > 0 && waste >= config_.max_dead_bytes_per_chunk);
}

BfcArena::Chunk* BfcArena::TakeFreeChunk(uint64_t bytes) {
  Chunk* chunk = nullptr;
  for (int bin = BinOf(bytes); bin < kBinCount && chunk == nullptr; ++bin) {
    chunk = free_bins_[static_cast<size_t>(bin)];
    while (chunk != nullptr && chunk->bytes < bytes) chunk = chunk->bin_next;
  }
  if (chunk == nullptr) return nullptr;
  // What can fail comes before what changes the books.
  Chunk* rest = SplitsFor(*chunk, bytes) ? NewChunk() : nullptr;
  try {
    used_chunks_.emplace(chunk->memory, chunk);
  } catch (...) {
    if (rest != nullptr) RecycleChunk(rest);
    throw;
  }
  EraseFree(chunk);
  chunk->in_use = true;
  if (rest != nullptr) {
    rest->memory = chunk->memory + bytes;
    rest->bytes = chunk->bytes - bytes;
    rest->previous = chunk;
    rest->next = chunk->next;
    if (rest->next != nullptr) rest->next->previous = rest;
    chunk->next = rest;
    chunk->bytes = bytes;
    InsertFree(rest);
  }
  return chunk;
}

uint64_t BfcArena::NextRegionBytes(uint64_t bytes) const {
  if (config_.extend_strategy == BfcArenaConfig::ExtendStrategy::kSameAsRequested) return bytes;
  const uint64_t limit = std::max(bytes, config_.max_power_of_two_extend_bytes);
  uint64_t region_bytes = std::min(next_region_bytes_, limit);
  while (region_bytes < bytes) region_bytes = std::min(Doubled(region_bytes), limit);
  return std::max(bytes, RoundDown(std::min(region_bytes, available_bytes())));
}

Status BfcArena::Extend(uint64_t bytes) {
  if (bytes > available_bytes()) ReleaseFreeRegions();
  if (bytes > available_bytes()) return Shortage(bytes, available_bytes());

  // The books first, so that a failure there leaks nothing.
  regions_.reserve(regions_.size() + 1);
  Chunk* chunk = NewChunk();
  uint64_t region_bytes = NextRegionBytes(bytes);
  Result<void*> memory = raw_.Alloc(region_bytes);
  while (!memory.ok() && region_bytes > bytes) {
    region_bytes = RoundDown(region_bytes / kBackoffDenominator * kBackoffNumerator);
    if (region_bytes < std::max(bytes, kMinBackoffBytes)) region_bytes = bytes;
    memory = raw_.Alloc(region_bytes);
  }
  if (!memory.ok()) {
    RecycleChunk(chunk);
    return memory.status().WithContext(
        fmt::format("arena of {}: failed to allocate memory for requested buffer of size {}",
                    device().ToString(), bytes));
  }
  chunk->memory = static_cast<std::byte*>(*memory);
  chunk->bytes = region_bytes;
  regions_.push_back(chunk);
  InsertFree(chunk);
  stats_.total_allocated_bytes += region_bytes;
  ++stats_.num_arena_extensions;
  next_region_bytes_ = extended_ ? Doubled(std::max(next_region_bytes_, region_bytes)) : first_growth_bytes();
  extended_ = true;
  return Status();
}

void BfcArena::Free(void* memory) {
  if (memory == nullptr) return;
  const std::scoped_lock lock(mutex_);
  if (const auto reserve = reserves_.find(memory); reserve != reserves_.end()) {
    raw_.Free(memory);
    stats_.in_use_bytes -= reserve->second;
    stats_.total_allocated_bytes -= reserve->second;
    reserves_.erase(reserve);
    return;
  }
  const auto used = used_chunks_.find(memory);
  if (used == used_chunks_.end()) {
    LogWarning("arena of {}: an address that it did not give out was freed", device().ToString());
    return;
  }
  Chunk* chunk = used->second;
  used_chunks_.erase(used);
  stats_.in_use_bytes -= chunk->bytes;
  chunk->in_use = false;
  InsertFree(JoinNeighbors(chunk));
}

BfcArena::Chunk* BfcArena::JoinNeighbors(Chunk* chunk) {
  const auto absorb_next = [this](Chunk* first) {
    Chunk* second = first->next;
    first->bytes += second->bytes;
    first->next = second->next;
    if (first->next != nullptr) first->next->previous = first;
    RecycleChunk(second);
  };
  if (chunk->next != nullptr && !chunk->next->in_use) {
    EraseFree(chunk->next);
    absorb_next(chunk);
  }
  if (chunk->previous != nullptr && !chunk->previous->in_use) {
    chunk = chunk->previous;
    EraseFree(chunk);
    absorb_next(chunk);
  }
  return chunk;
}

Result<void*> BfcArena::Reserve(uint64_t bytes) {
  const uint64_t rounded = RoundUp(bytes);
  const std::scoped_lock lock(mutex_);
  if (rounded == 0) return Shortage(bytes, available_bytes());
  if (rounded > available_bytes()) ReleaseFreeRegions();
  if (rounded > available_bytes()) return Shortage(rounded, available_bytes());
  Result<void*> memory = raw_.Reserve(rounded);
  if (!memory.ok()) {
    return memory.status().WithContext(
        fmt::format("arena of {}: a reserve of {} bytes", device().ToString(), bytes));
  }
  try {
    reserves_.emplace(*memory, rounded);
  } catch (const std::bad_alloc&) {
    raw_.Free(*memory);
    return ResourceExhaustedError("arena of {}: no host memory for its own books", device().ToString());
  }
  stats_.total_allocated_bytes += rounded;
  ++stats_.num_reserves;
  CountAllocation(rounded);
  return memory;
}

void BfcArena::Shrink() {
  const std::scoped_lock lock(mutex_);
  ReleaseFreeRegions();
}

void BfcArena::ReleaseFreeRegions() {
  bool released = false;
  std::erase_if(regions_, [&](Chunk* region) {
    if (region->in_use || region->next != nullptr) return false;
    EraseFree(region);
    raw_.Free(region->memory);
    stats_.total_allocated_bytes -= region->bytes;
    RecycleChunk(region);
    released = true;
    return true;
  });
  if (!released) return;
  ++stats_.num_arena_shrinkages;
  next_region_bytes_ = first_growth_bytes();
}

AllocatorStats BfcArena::GetStats() const {
  const std::scoped_lock lock(mutex_);
  return stats_;
}

void BfcArena::InsertFree(Chunk* chunk) {
  Chunk*& head = free_bins_[static_cast<size_t>(BinOf(chunk->bytes))];
  Chunk* before = nullptr;
  Chunk* after = head;
  const auto precedes = [](const Chunk& a, const Chunk& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.memory < b.memory;
  };
  while (after != nullptr && precedes(*after, *chunk)) {
    before = after;
    after = after->bin_next;
  }
  chunk->bin_previous = before;
  chunk->bin_next = after;
  (before != nullptr ? before->bin_next : head) = chunk;
  if (after != nullptr) after->bin_previous = chunk;
}

void BfcArena::EraseFree(Chunk* chunk) {
  Chunk*& head = free_bins_[static_cast<size_t>(BinOf(chunk->bytes))];
  (chunk->bin_previous != nullptr ? chunk->bin_previous->bin_next : head) = chunk->bin_next;
  if (chunk->bin_next != nullptr) chunk->bin_next->bin_previous = chunk->bin_previous;
  chunk->bin_previous = nullptr;
  chunk->bin_next = nullptr;
}

BfcArena::Chunk* BfcArena::NewChunk() {
  if (spare_chunk_ == nullptr) return &chunks_.emplace_back();
  Chunk* chunk = std::exchange(spare_chunk_, spare_chunk_->next);
  *chunk = Chunk();
  return chunk;
}

void BfcArena::RecycleChunk(Chunk* chunk) { chunk->next = std::exchange(spare_chunk_, chunk); }

void BfcArena::CountAllocation(uint64_t bytes) {
  ++stats_.num_allocs;
  stats_.in_use_bytes += bytes;
  stats_.max_in_use_bytes = std::max(stats_.max_in_use_bytes, stats_.in_use_bytes);
  stats_.max_alloc_size_bytes = std::max(stats_.max_alloc_size_bytes, bytes);
}

Status BfcArena::Shortage(uint64_t bytes, uint64_t available) const {
  MemoryShortage shortage;
  shortage.device = device().ToString();
  shortage.needed_bytes = bytes;
  shortage.available_bytes = available;
  shortage.largest_contributors = {{"in use in the arena", stats_.in_use_bytes}};
  std::string message = fmt::format(
      "arena of {}: available memory of {} is smaller than requested bytes of {} (limit {}, held {}, in use "
      "{})",
      shortage.device, available, bytes, stats_.limit_bytes, stats_.total_allocated_bytes,
      stats_.in_use_bytes);
  return Status::OutOfMemory(std::move(message), std::move(shortage));
}

Status BfcArena::CheckInvariants() const {
  const std::scoped_lock lock(mutex_);
  const auto broken = [](const char* what, const void* where) {
    return InternalError("arena: {} at {}", what, where);
  };
  uint64_t held_bytes = 0;
  uint64_t in_use_bytes = 0;
  size_t used = 0;
  size_t free = 0;
  for (const Chunk* region : regions_) {
    if (region->previous != nullptr)
      return broken("a region does not begin with its first chunk", region->memory);
    for (const Chunk* chunk = region; chunk != nullptr; chunk = chunk->next) {
      if (chunk->bytes == 0 || chunk->bytes % kGranuleBytes != 0)
        return broken("odd chunk size", chunk->memory);
      held_bytes += chunk->bytes;
      in_use_bytes += chunk->in_use ? chunk->bytes : 0;
      (chunk->in_use ? used : free) += 1;
      if (chunk->in_use != (used_chunks_.count(chunk->memory) == 1))
        return broken("chunk and index differ", chunk->memory);
      if (chunk->next == nullptr) continue;
      if (chunk->next->previous != chunk) return broken("links differ", chunk->memory);
      if (chunk->next->memory != chunk->memory + chunk->bytes)
        return broken("hole or overlap", chunk->memory);
      if (!chunk->in_use && !chunk->next->in_use) return broken("free neighbours not joined", chunk->memory);
    }
  }
  for (int bin = 0; bin < kBinCount; ++bin) {
    for (const Chunk* chunk = free_bins_[static_cast<size_t>(bin)]; chunk != nullptr;
         chunk = chunk->bin_next) {
      if (chunk->in_use || BinOf(chunk->bytes) != bin) return broken("chunk in the wrong bin", chunk->memory);
      if (chunk->bin_next != nullptr && chunk->bin_next->bytes < chunk->bytes)
        return broken("bin not sorted", chunk->memory);
      --free;
    }
  }
  if (free != 0) return broken("a free chunk is in no bin, or one is in two", nullptr);
  if (used != used_chunks_.size()) return broken("an index entry has no chunk", nullptr);
  for (const auto& [memory, bytes] : reserves_) {
    held_bytes += bytes;
    in_use_bytes += bytes;
  }
  if (held_bytes != stats_.total_allocated_bytes) return broken("held bytes are miscounted", nullptr);
  if (in_use_bytes != stats_.in_use_bytes) return broken("bytes in use are miscounted", nullptr);
  if (held_bytes > config_.max_mem) return broken("more than max_mem is held", nullptr);
  return Status();
}

}  // namespace lamina
