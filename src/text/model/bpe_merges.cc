#include "text/model/bpe_merges.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <future>

#include "text/run_beside.h"

namespace lamina::text {
namespace {

// Words up to this many symbols are merged by scanning: faster than a queue, and the quadratic cost stays
// small.
constexpr size_t kShortSymbols = 48;
// From so many merges on a second thread is worth its start.
constexpr size_t kMergesForTwoThreads = 10'000;
// Merges whose memory is fetched while others are entered.
constexpr size_t kPrefetchAhead = 8;
// Id of a symbol that was merged into the one before it.
constexpr TokenId kGone = -1;

void RemoveGone(std::vector<BpeSymbol>& symbols) {
  std::erase_if(symbols, [](const BpeSymbol& symbol) { return symbol.id == kGone; });
}

}  // namespace

MergeTable::MergeTable(std::span<const Merge> merges) {
  if (merges.size() < kMergesForTwoThreads) {
    FillPartners(merges);
    FillPairs(merges);
    return;
  }
  const std::future<void> partners = RunBeside([&] { FillPartners(merges); });
  FillPairs(merges);
  partners.wait();
}

void MergeTable::FillPairs(std::span<const Merge> merges) {
  slots_.resize(std::bit_ceil(merges.size() * 2 + 2));
  const size_t mask = slots_.size() - 1;
  for (size_t i = 0; i < merges.size(); ++i) {
    const Merge& ahead = merges[std::min(i + kPrefetchAhead, merges.size() - 1)];
    __builtin_prefetch(&slots_[Hash(ahead.left, ahead.right) & mask], 1);
    InsertPair(merges[i]);
  }
}

void MergeTable::InsertPair(const Merge& merge) {
  if (IsDirect(merge.left, merge.right)) {
    if (direct_.empty()) direct_.resize(size_t{kDirectIds} * kDirectIds);
    Outcome& outcome = direct_[DirectIndex(merge.left, merge.right)];
    if (outcome.merged < 0) ++count_;
    outcome = merge.outcome;
    return;
  }
  const size_t mask = slots_.size() - 1;
  size_t slot = Hash(merge.left, merge.right) & mask;
  while (slots_[slot].outcome.merged >= 0) {
    if (slots_[slot].left == merge.left && slots_[slot].right == merge.right) {
      slots_[slot] = merge;
      return;
    }
    slot = (slot + 1) & mask;
  }
  slots_[slot] = merge;
  ++count_;
}

void MergeTable::FillPartners(std::span<const Merge> merges) {
  TokenId last_id = -1;
  for (const Merge& merge : merges) last_id = std::max({last_id, merge.left, merge.right});
  partners_.resize(static_cast<size_t>(last_id) + 1);
  for (size_t i = 0; i < merges.size(); ++i) {
    const Merge& ahead = merges[std::min(i + kPrefetchAhead, merges.size() - 1)];
    __builtin_prefetch(&partners_[static_cast<size_t>(ahead.left)], 1);
    __builtin_prefetch(&partners_[static_cast<size_t>(ahead.right)], 1);
    const auto& [left, right, outcome] = merges[i];
    if (IsDirect(left, right)) continue;
    partners_[static_cast<size_t>(left)].right |= PartnerBit(right);
    partners_[static_cast<size_t>(right)].left |= PartnerBit(left);
  }
}

void BpeMerger::MergeAll(const MergeTable& merges, std::vector<BpeSymbol>& symbols) {
  if (symbols.size() <= kShortSymbols) {
    MergeShort(merges, symbols);
  } else {
    MergeLong(merges, symbols);
  }
}

void BpeMerger::MergeShort(const MergeTable& merges, std::vector<BpeSymbol>& symbols) {
  const size_t count = symbols.size();
  if (count < 2) return;
  // [i]: the merge of symbol i and the one after it; kNoRank for the last and for those that were merged into
  // another. Symbols stay where they are until the end.
  std::array<MergeTable::Outcome, kShortSymbols> candidates;
  std::array<uint8_t, kShortSymbols> previous;
  std::array<uint8_t, kShortSymbols> next;
  for (size_t i = 0; i < count; ++i) {
    candidates[i] = i + 1 < count ? merges.Find(symbols[i].id, symbols[i + 1].id) : MergeTable::Outcome();
    previous[i] = static_cast<uint8_t>(i - 1);
    next[i] = static_cast<uint8_t>(i + 1);
  }
  size_t left_over = count;
  while (true) {
    // The rank above, the position below: the least is the leftmost of the lowest rank.
    uint64_t best = UINT64_MAX;
    for (size_t i = 0; i + 1 < count; ++i) {
      best = std::min(best, static_cast<uint64_t>(candidates[i].rank) << 32 | i);
    }
    if (best >> 32 == MergeTable::kNoRank) break;
    const size_t left = best & UINT32_MAX;
    const size_t right = next[left];
    const size_t after = next[right];
    symbols[left].id = candidates[left].merged;
    symbols[left].length_bytes += symbols[right].length_bytes;
    symbols[right].id = kGone;
    candidates[right] = {};
    next[left] = static_cast<uint8_t>(after);
    candidates[left] = {};
    if (after < count) {
      previous[after] = static_cast<uint8_t>(left);
      candidates[left] = merges.Find(symbols[left].id, symbols[after].id);
    }
    if (left > 0) {
      const size_t before = previous[left];
      candidates[before] = merges.Find(symbols[before].id, symbols[left].id);
    }
    --left_over;
  }
  if (left_over < count) RemoveGone(symbols);
}

void BpeMerger::MergeLong(const MergeTable& merges, std::vector<BpeSymbol>& symbols) {
  const auto count = static_cast<int32_t>(symbols.size());
  links_.resize(symbols.size());
  candidates_.assign(symbols.size(), {});  // [i]: the queued merge of symbol i and the one after it
  queue_.clear();
  for (int32_t i = 0; i < count; ++i) {
    links_[static_cast<size_t>(i)] = {i - 1, i + 1 < count ? i + 1 : -1};
    if (i + 1 == count) break;
    const MergeTable::Outcome merge =
        merges.Find(symbols[static_cast<size_t>(i)].id, symbols[static_cast<size_t>(i) + 1].id);
    candidates_[static_cast<size_t>(i)] = merge;
    if (merge.rank != MergeTable::kNoRank)
      queue_.push_back(static_cast<uint64_t>(merge.rank) << 32 | static_cast<uint32_t>(i));
  }
  std::make_heap(queue_.begin(), queue_.end(), std::greater<>());
  const auto refresh = [&](size_t left, size_t right) {
    const MergeTable::Outcome merge = merges.Find(symbols[left].id, symbols[right].id);
    candidates_[left] = merge;
    if (merge.rank == MergeTable::kNoRank) return;
    queue_.push_back(static_cast<uint64_t>(merge.rank) << 32 | left);
    std::push_heap(queue_.begin(), queue_.end(), std::greater<>());
  };
  while (!queue_.empty()) {
    std::pop_heap(queue_.begin(), queue_.end(), std::greater<>());
    const uint64_t top = queue_.back();
    queue_.pop_back();
    const auto left = static_cast<size_t>(top & 0xFFFFFFFF);
    const MergeTable::Outcome merge = candidates_[left];
    // An entry whose symbols have changed since; the current pair has an entry of its own.
    if (merge.rank != top >> 32) continue;
    const auto right = static_cast<size_t>(links_[left].next);
    symbols[left].id = merge.merged;
    symbols[left].length_bytes += symbols[right].length_bytes;
    symbols[right].id = kGone;
    candidates_[left] = candidates_[right] = {};
    links_[left].next = links_[right].next;
    if (links_[left].next >= 0) {
      const auto next = static_cast<size_t>(links_[left].next);
      links_[next].previous = static_cast<int32_t>(left);
      refresh(left, next);
    }
    if (links_[left].previous >= 0) refresh(static_cast<size_t>(links_[left].previous), left);
  }
  RemoveGone(symbols);
}

}  // namespace lamina::text
