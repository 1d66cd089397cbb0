// The merge table of byte-pair encoding and the merging of one word's symbols.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "text/large_vector.h"
#include "text/tokenizer.h"

namespace lamina::text {

// (left id, right id) -> rank and id of what they merge to. Built once, then only read.
class MergeTable {
 public:
  static constexpr uint32_t kNoRank = UINT32_MAX;
  // What two neighbours merge to; kNoRank where they do not merge.
  struct Outcome {
    uint32_t rank = kNoRank;
    TokenId merged = -1;
  };
  struct Merge {
    TokenId left = -1;
    TokenId right = -1;
    Outcome outcome;
  };

  MergeTable() = default;
  // Of a pair that is there twice the last counts. Two threads make large tables.
  explicit MergeTable(std::span<const Merge> merges);
  Outcome Find(TokenId left, TokenId right) const {
    if (IsDirect(left, right)) return direct_.empty() ? Outcome() : direct_[DirectIndex(left, right)];
    if (!MayMerge(left, right)) return {};
    const size_t mask = slots_.size() - 1;
    for (size_t slot = Hash(left, right) & mask;; slot = (slot + 1) & mask) {
      const Merge& entry = slots_[slot];
      if (entry.left == left && entry.right == right) return entry.outcome;
      if (entry.outcome.merged < 0) return {};
    }
  }
  size_t size() const { return count_; }

 private:
  // The ids of single bytes in vocabularies of byte level: a word begins as these.
  static constexpr uint32_t kDirectIds = 256;
  static bool IsDirect(TokenId left, TokenId right) {
    return (static_cast<uint32_t>(left) | static_cast<uint32_t>(right)) < kDirectIds;
  }
  static size_t DirectIndex(TokenId left, TokenId right) {
    return static_cast<size_t>(left) * kDirectIds + static_cast<size_t>(right);
  }
  static uint64_t Hash(TokenId left, TokenId right) {
    const uint64_t key =
        static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
    const auto product = static_cast<unsigned __int128>(key) * 0x9E3779B97F4A7C15u;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }
  // What an id merges with, one bit for each of 64 classes of ids. Most neighbours do not merge, and half a
  // million merges fit no near cache: these sets, by id, tell so from memory that the same text keeps in use.
  struct Partners {
    uint64_t right = 0;  // what stands at its right
    uint64_t left = 0;
  };
  static uint64_t PartnerBit(TokenId id) {
    return uint64_t{1} << (static_cast<uint32_t>(id) * 0x9E3779B1u >> 26);
  }
  bool MayMerge(TokenId left, TokenId right) const {
    const auto left_index = static_cast<uint32_t>(left);
    const auto right_index = static_cast<uint32_t>(right);
    return left_index < partners_.size() && right_index < partners_.size() &&
           (partners_[left_index].right & PartnerBit(right)) != 0 &&
           (partners_[right_index].left & PartnerBit(left)) != 0;
  }
  void FillPairs(std::span<const Merge> merges);     // slots_ and direct_
  void FillPartners(std::span<const Merge> merges);  // partners_
  void InsertPair(const Merge& merge);

  LargeVector<Merge> slots_;        // a power of two, at most half full; pairs that are not direct
  LargeVector<Partners> partners_;  // by id, of the pairs in slots_
  std::vector<Outcome> direct_;     // by left * kDirectIds + right; empty where there is none
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
  std::vector<MergeTable::Outcome> candidates_;
  std::vector<Link> links_;
  std::vector<uint64_t> queue_;  // rank << 32 | position, a binary heap with the least on top
};

}  // namespace lamina::text
