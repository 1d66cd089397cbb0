// Tells of most keys that a hash table lacks them, without a look at the table: a vocabulary of 200,000
// tokens or half a million merges fit no near cache, their filters do, and most of what merging asks for is
// not there.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lamina::text {

// One bit for each key, by the upper bits of its 64-bit hash. Built once, then only read.
class HashFilter {
 public:
  // Forgets all keys and makes room for `keys` of them: up to one in eight of those that are not there
  // passes.
  void Reset(size_t keys) {
    const size_t bits = std::bit_ceil(keys * 8 + 64);
    shift_ = 64 - std::countr_zero(bits);
    words_.assign(bits / 64, 0);
  }
  // REQUIRES: Reset was called.
  void Add(uint64_t hash) { words_[hash >> shift_ >> 6] |= uint64_t{1} << (hash >> shift_ & 63); }
  bool MayContain(uint64_t hash) const {
    return (words_[hash >> shift_ >> 6] >> (hash >> shift_ & 63) & 1) != 0;
  }
  void Prefetch(uint64_t hash) const { __builtin_prefetch(&words_[hash >> shift_ >> 6]); }

 private:
  int shift_ = 0;
  std::vector<uint64_t> words_;
};

}  // namespace lamina::text
