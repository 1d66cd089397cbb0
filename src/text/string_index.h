// A map from strings to numbers for vocabularies: built once, then only read. The strings lie one after
// another in one buffer, so that 200,000 of them cost two allocations.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "text/hash_filter.h"
#include "text/large_vector.h"

namespace lamina::text {

// A fast hash with good high and low bits; not for untrusted keys beyond what a bounded probe tolerates.
inline uint64_t HashBytes(std::string_view bytes) {
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15u;
  const auto mix = [](uint64_t a, uint64_t b) {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  };
  uint64_t hash = bytes.size() * kMultiplier;
  const char* data = bytes.data();
  size_t left = bytes.size();
  for (; left > 8; left -= 8, data += 8) {
    uint64_t block = 0;
    std::memcpy(&block, data, 8);
    hash = mix(hash ^ block, kMultiplier);
  }
  uint64_t tail = 0;
  std::memcpy(&tail, data, left);
  return mix(hash ^ tail, 0xD6E8FEB86659FD93u);
}

class StringIndex {
 public:
  static constexpr int32_t kMissing = -1;

  // Room for `count` strings of `bytes` bytes together.
  void Reserve(size_t count, size_t bytes);
  // Maps `key` to `value` (not negative), in place of what it mapped to, and returns where Key finds the
  // string. Total bytes stay below 4 GiB.
  uint32_t Insert(std::string_view key, int32_t value) { return InsertHashed(key, HashBytes(key), value); }
  // With the hash at hand; Prefetch and PrefetchMayHave begin to load what it will look at.
  uint32_t InsertHashed(std::string_view key, uint64_t hash, int32_t value);
  std::string_view Key(uint32_t offset, uint32_t length) const {
    return std::string_view(bytes_).substr(offset, length);
  }
  int32_t Find(std::string_view key) const { return FindHashed(key, HashBytes(key)); }
  int32_t FindHashed(std::string_view key, uint64_t hash) const {
    if (slots_.empty()) return kMissing;
    const size_t mask = slots_.size() - 1;
    for (size_t slot = hash >> 32 & mask;; slot = (slot + 1) & mask) {
      const Slot& entry = slots_[slot];
      if (entry.value == kMissing) return kMissing;
      if (entry.hash == static_cast<uint32_t>(hash) && entry.length == key.size() &&
          std::memcmp(bytes_.data() + entry.offset, key.data(), key.size()) == 0) {
        return entry.value;
      }
    }
  }
  // Begins to load the entry of a hash.
  void Prefetch(uint64_t hash) const {
    if (!slots_.empty()) __builtin_prefetch(&slots_[hash >> 32 & (slots_.size() - 1)]);
  }
  // The same for the characters of the key that a hash probably belongs to; looks at its entry.
  void PrefetchKey(uint64_t hash) const {
    if (!slots_.empty()) __builtin_prefetch(bytes_.data() + slots_[hash >> 32 & (slots_.size() - 1)].offset);
  }
  // False where no key has the hash, which is told from memory that stays in use.
  bool MayHave(uint64_t hash) const { return !slots_.empty() && filter_.MayContain(hash); }
  void PrefetchMayHave(uint64_t hash) const {
    if (!slots_.empty()) filter_.Prefetch(hash);
  }
  size_t size() const { return count_; }
  // Calls visit(key, value) for each entry, in no particular order.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const Slot& slot : slots_) {
      if (slot.value != kMissing) visit(Key(slot.offset, slot.length), slot.value);
    }
  }

 private:
  struct Slot {
    uint32_t hash = 0;
    uint32_t offset = 0;
    uint32_t length = 0;
    int32_t value = kMissing;
  };
  void Rehash(size_t slots);
  std::string bytes_;
  LargeVector<Slot> slots_;  // a power of two, at most half full
  HashFilter filter_;        // of the keys
  size_t count_ = 0;
};

}  // namespace lamina::text
