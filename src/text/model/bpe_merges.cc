#include "text/model/bpe_merges.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace lamina::text {
namespace {

// Words up to this many symbols are merged by scanning: faster than a queue, and the quadratic cost stays
// small.
constexpr size_t kShortSymbols = 48;

}  // namespace

void MergeTable::Reserve(size_t count) {
  const size_t wanted = std::bit_ceil(count * 2 + 2);
  if (wanted <= slots_.size()) return;
  std::vector<Merge> old = std::exchange(slots_, std::vector<Merge>(wanted));
  const size_t mask = wanted - 1;
  for (const Merge& merge : old) {
    if (merge.merged < 0) continue;
    size_t slot = Hash(merge.left, merge.right) & mask;
    while (slots_[slot].merged >= 0) slot = (slot + 1) & mask;
    slots_[slot] = merge;
  }
}

void MergeTable::Insert(const Merge& merge) {
  if ((count_ + 1) * 2 > slots_.size()) Reserve(slots_.size());
  const size_t mask = slots_.size() - 1;
  size_t slot = Hash(merge.left, merge.right) & mask;
  while (slots_[slot].merged >= 0) {
    if (slots_[slot].left == merge.left && slots_[slot].right == merge.right) {
      slots_[slot] = merge;
      return;
    }
    slot = (slot + 1) & mask;
  }
  slots_[slot] = merge;
  ++count_;
}

void BpeMerger::MergeAll(const MergeTable& merges, std::vector<BpeSymbol>& symbols) {
  if (symbols.size() <= kShortSymbols) {
    MergeShort(merges, symbols);
  } else {
    MergeLong(merges, symbols);
  }
}

void BpeMerger::MergeShort(const MergeTable& merges, std::vector<BpeSymbol>& symbols) {
  if (symbols.size() < 2) return;
  candidates_.resize(symbols.size() - 1);  // [i]: the merge of symbols i and i + 1
  for (size_t i = 0; i + 1 < symbols.size(); ++i) {
    candidates_[i] = merges.Find(symbols[i].id, symbols[i + 1].id);
  }
  while (true) {
    size_t best = SIZE_MAX;
    uint32_t best_rank = MergeTable::kNoRank;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      if (candidates_[i] != nullptr && candidates_[i]->rank < best_rank) {
        best_rank = candidates_[i]->rank;
        best = i;
      }
    }
    if (best == SIZE_MAX) return;
    symbols[best].id = candidates_[best]->merged;
    symbols[best].length_bytes += symbols[best + 1].length_bytes;
    symbols.erase(symbols.begin() + static_cast<long>(best) + 1);
    candidates_.erase(candidates_.begin() + static_cast<long>(best));
    if (best > 0) candidates_[best - 1] = merges.Find(symbols[best - 1].id, symbols[best].id);
    if (best < candidates_.size()) candidates_[best] = merges.Find(symbols[best].id, symbols[best + 1].id);
  }
}

void BpeMerger::MergeLong(const MergeTable& merges, std::vector<BpeSymbol>& symbols) {
  const auto count = static_cast<int32_t>(symbols.size());
  links_.resize(symbols.size());
  candidates_.assign(symbols.size(), nullptr);  // [i]: the queued merge of symbol i and the one after it
  queue_.clear();
  for (int32_t i = 0; i < count; ++i) {
    links_[static_cast<size_t>(i)] = {i - 1, i + 1 < count ? i + 1 : -1};
    if (i + 1 == count) break;
    const MergeTable::Merge* merge =
        merges.Find(symbols[static_cast<size_t>(i)].id, symbols[static_cast<size_t>(i) + 1].id);
    candidates_[static_cast<size_t>(i)] = merge;
    if (merge != nullptr)
      queue_.push_back(static_cast<uint64_t>(merge->rank) << 32 | static_cast<uint32_t>(i));
  }
  std::make_heap(queue_.begin(), queue_.end(), std::greater<>());
  const auto refresh = [&](size_t left, size_t right) {
    const MergeTable::Merge* merge = merges.Find(symbols[left].id, symbols[right].id);
    candidates_[left] = merge;
    if (merge == nullptr) return;
    queue_.push_back(static_cast<uint64_t>(merge->rank) << 32 | left);
    std::push_heap(queue_.begin(), queue_.end(), std::greater<>());
  };
  while (!queue_.empty()) {
    std::pop_heap(queue_.begin(), queue_.end(), std::greater<>());
    const uint64_t top = queue_.back();
    queue_.pop_back();
    const auto left = static_cast<size_t>(top & 0xFFFFFFFF);
    const MergeTable::Merge* merge = candidates_[left];
    // An entry whose symbols have changed since; the current pair has an entry of its own.
    if (merge == nullptr || merge->rank != top >> 32) continue;
    const auto right = static_cast<size_t>(links_[left].next);
    symbols[left].id = merge->merged;
    symbols[left].length_bytes += symbols[right].length_bytes;
    symbols[right].id = -1;
    candidates_[left] = candidates_[right] = nullptr;
    links_[left].next = links_[right].next;
    if (links_[left].next >= 0) {
      const auto next = static_cast<size_t>(links_[left].next);
      links_[next].previous = static_cast<int32_t>(left);
      refresh(left, next);
    }
    if (links_[left].previous >= 0) refresh(static_cast<size_t>(links_[left].previous), left);
  }
  std::erase_if(symbols, [](const BpeSymbol& symbol) { return symbol.id < 0; });
}

}  // namespace lamina::text
