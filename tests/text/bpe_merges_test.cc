#include "text/model/bpe_merges.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace lamina::text {
namespace {

// Merges by definition: the lowest rank, the leftmost among equals, until nothing merges.
std::vector<TokenId> MergeByDefinition(const MergeTable& merges, std::vector<TokenId> ids) {
  while (true) {
    MergeTable::Outcome best;
    size_t best_index = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const MergeTable::Outcome merge = merges.Find(ids[i], ids[i + 1]);
      if (merge.rank < best.rank) {
        best = merge;
        best_index = i;
      }
    }
    if (best.rank == MergeTable::kNoRank) return ids;
    ids[best_index] = best.merged;
    ids.erase(ids.begin() + static_cast<long>(best_index) + 1);
  }
}

TEST(BpeMerges, FollowsTheDefinitionForShortAndLongWords) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    MergeTable merges;
    TokenId next = 4;
    for (uint32_t rank = 0; rank < 60; ++rank) {
      const auto left = static_cast<TokenId>(random() % static_cast<uint32_t>(next));
      const auto right = static_cast<TokenId>(random() % static_cast<uint32_t>(next));
      if (merges.Find(left, right).rank == MergeTable::kNoRank) merges.Insert({left, right, {rank, next++}});
    }
    const size_t length = round % 2 == 0 ? random() % 40 : 50 + random() % 400;
    std::vector<TokenId> ids(length);
    std::vector<BpeSymbol> symbols;
    for (TokenId& id : ids) {
      id = static_cast<TokenId>(random() % 4);
      symbols.push_back({id, 1});
    }
    BpeMerger().MergeAll(merges, symbols);
    const std::vector<TokenId> expected = MergeByDefinition(merges, ids);
    ASSERT_EQ(symbols.size(), expected.size());
    size_t bytes = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(symbols[i].id, expected[i]);
      bytes += symbols[i].length_bytes;
    }
    EXPECT_EQ(bytes, length);
  }
}

TEST(BpeMerges, ALaterInsertionReplacesAnEarlier) {
  MergeTable merges;
  merges.Insert({1, 2, {0, 3}});
  merges.Insert({1, 2, {5, 4}});
  EXPECT_EQ(merges.size(), 1u);
  EXPECT_EQ(merges.Find(1, 2).merged, 4);
  EXPECT_EQ(merges.Find(2, 1).rank, MergeTable::kNoRank);
}

}  // namespace
}  // namespace lamina::text
