// The merge table of byte-pair encoding and the merging of one word's symbols.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "text/tokenizer.h"

namespace lamina::text {

// (left id, right id) -> rank and id of what they merge to. Built once, then only read.
class MergeTable {
 public:
  struct Merge {
    TokenId left = -1;
    TokenId right = -1;
    uint32_t rank = 0;
    TokenId merged = -1;
  };
  static constexpr uint32_t kNoRank = UINT32_MAX;

  void Reserve(size_t count);
  // A pair that is there already takes the given rank and result.
  void Insert(const Merge& merge);
  // Null where the two do not merge.
  const Merge* Find(TokenId left, TokenId right) const {
    if (slots_.empty()) return nullptr;
    const size_t mask = slots_.size() - 1;
    for (size_t slot = Hash(left, right) & mask;; slot = (slot + 1) & mask) {
      const Merge& entry = slots_[slot];
      if (entry.left == left && entry.right == right) return &entry;
      if (entry.merged < 0) return nullptr;
    }
  }
  // Begins to load the entry of a pair.
  void Prefetch(TokenId left, TokenId right) const {
    if (!slots_.empty()) __builtin_prefetch(&slots_[Hash(left, right) & (slots_.size() - 1)]);
  }
  size_t size() const { return count_; }

 private:
  static size_t Hash(TokenId left, TokenId right) {
    const uint64_t key =
        static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
    return static_cast<size_t>(key * 0x9E3779B97F4A7C15u >> 32 ^ key * 0xD6E8FEB86659FD93u >> 40);
  }
  std::vector<Merge> slots_;  // a power of two, at most half full
  size_t count_ = 0;
};

// A part of a word: an id and how many bytes it covers.
struct BpeSymbol {
  TokenId id = 0;
  uint32_t length_bytes = 0;
};

// Merges neighbours, lowest rank first and leftmost among equals, until none is left to merge. Short words by
// repeated scans, long ones with a priority queue in O(n log n).
class BpeMerger {
 public:
  // The result is in `symbols`. Keeps its memory between calls; not thread-safe.
  void MergeAll(const MergeTable& merges, std::vector<BpeSymbol>& symbols);

 private:
  void MergeShort(const MergeTable& merges, std::vector<BpeSymbol>& symbols);
  void MergeLong(const MergeTable& merges, std::vector<BpeSymbol>& symbols);

  struct Link {
    int32_t previous;
    int32_t next;
  };
  std::vector<const MergeTable::Merge*> candidates_;
  std::vector<Link> links_;
  std::vector<uint64_t> queue_;  // rank << 32 | position, a binary heap with the least on top
};

}  // namespace lamina::text
