#include "text/model/bpe_merges.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <utility>
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
    std::vector<MergeTable::Merge> list;
    std::set<std::pair<TokenId, TokenId>> pairs;
    TokenId next = 4;
    for (uint32_t rank = 0; rank < 60; ++rank) {
      const auto left = static_cast<TokenId>(random() % static_cast<uint32_t>(next));
      const auto right = static_cast<TokenId>(random() % static_cast<uint32_t>(next));
      if (pairs.emplace(left, right).second) list.push_back({left, right, {rank, next++}});
    }
    const MergeTable merges(list);
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

TEST(BpeMerges, OfAPairTheLastMergeCounts) {
  for (const TokenId right : {2, 2000}) {
    const std::vector<MergeTable::Merge> list = {{1, right, {0, 3}}, {1, right, {5, 4}}};
    const MergeTable merges(list);
    EXPECT_EQ(merges.size(), 1u);
    EXPECT_EQ(merges.Find(1, right).merged, 4);
    EXPECT_EQ(merges.Find(right, 1).rank, MergeTable::kNoRank);
  }
}

// So large that two threads make it.
TEST(BpeMerges, LargeTablesHoldEachMerge) {
  std::vector<MergeTable::Merge> list;
  for (uint32_t rank = 0; rank < 30'000; ++rank) {
    const auto id = static_cast<TokenId>(rank);
    list.push_back({id, id * 7 % 1000, {rank, id + 1}});
  }
  const MergeTable merges(list);
  EXPECT_EQ(merges.size(), list.size());
  for (const auto& [left, right, outcome] : list) {
    ASSERT_EQ(merges.Find(left, right).rank, outcome.rank);
    ASSERT_EQ(merges.Find(left, right + 1).rank, MergeTable::kNoRank);
  }
}

}  // namespace
}  // namespace lamina::text
