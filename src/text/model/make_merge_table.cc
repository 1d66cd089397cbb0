#include "text/model/make_merge_table.h"

#include <algorithm>
#include <array>
#include <future>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/run_beside.h"

namespace lamina::text {
namespace {

// From so many merges on a second thread is worth its start.
constexpr size_t kMergesForTwoThreads = 10'000;

// Finds the ids of merges. Half a million merges are one and a half million accesses to tables that fit no
// near cache: merges are taken in batches, whose accesses overlap.
class MergeResolver {
 public:
  MergeResolver(const Vocabulary& vocabulary, std::string_view prefix)
      : vocabulary_(vocabulary), prefix_(prefix) {}

  // found[i] from merges[i], whose rank is first_rank + i.
  Status Resolve(std::span<const MergeSpelling> merges, size_t first_rank,
                 std::span<MergeTable::Merge> found) {
    for (size_t begin = 0; begin < merges.size(); begin += kBatch) {
      const size_t count = std::min(kBatch, merges.size() - begin);
      LAMINA_RETURN_IF_ERROR(
          ResolveBatch(merges.subspan(begin, count), first_rank + begin, found.subspan(begin, count)));
    }
    return {};
  }

 private:
  static constexpr size_t kBatch = 32;
  struct Hashes {
    uint64_t left = 0;
    uint64_t right = 0;
    uint64_t merged = 0;
    size_t merged_begin = 0;  // in merged_
  };

  Status ResolveBatch(std::span<const MergeSpelling> merges, size_t first_rank,
                      std::span<MergeTable::Merge> found) {
    merged_.clear();
    for (size_t i = 0; i < merges.size(); ++i) {
      const auto& [left, right] = merges[i];
      if (right.size() < prefix_.size()) {
        return InvalidModelError("BPE merge {}: '{}' is shorter than continuing_subword_prefix",
                                 first_rank + i, right);
      }
      const size_t merged_begin = merged_.size();
      merged_.append(left).append(right.substr(prefix_.size()));
      const std::string_view merged = std::string_view(merged_).substr(merged_begin);
      hashes_[i] = {HashBytes(left), HashBytes(right), HashBytes(merged), merged_begin};
      vocabulary_.Prefetch(hashes_[i].left);
      vocabulary_.Prefetch(hashes_[i].right);
      vocabulary_.Prefetch(hashes_[i].merged);
    }
    for (size_t i = 0; i < merges.size(); ++i) {
      vocabulary_.PrefetchSpelling(hashes_[i].left);
      vocabulary_.PrefetchSpelling(hashes_[i].right);
      vocabulary_.PrefetchSpelling(hashes_[i].merged);
    }
    for (size_t i = 0; i < merges.size(); ++i) {
      const auto& [left, right] = merges[i];
      const auto merged = std::string_view(merged_).substr(hashes_[i].merged_begin,
                                                           left.size() + right.size() - prefix_.size());
      LAMINA_ASSIGN_OR_RETURN(found[i].left, Find(left, hashes_[i].left));
      LAMINA_ASSIGN_OR_RETURN(found[i].right, Find(right, hashes_[i].right));
      LAMINA_ASSIGN_OR_RETURN(found[i].outcome.merged, Find(merged, hashes_[i].merged));
      found[i].outcome.rank = static_cast<uint32_t>(first_rank + i);
    }
    return {};
  }

  Result<TokenId> Find(std::string_view token, uint64_t hash) const {
    if (const std::optional<TokenId> id = vocabulary_.FindHashed(token, hash)) return *id;
    return InvalidModelError("BPE merge: token '{}' is not in the vocabulary", token);
  }

  const Vocabulary& vocabulary_;
  const std::string_view prefix_;
  std::array<Hashes, kBatch> hashes_;
  std::string merged_;  // what the merges of a batch merge to, one after another
};

}  // namespace

Result<MergeTable> MakeMergeTable(const Vocabulary& vocabulary, std::span<const MergeSpelling> merges,
                                  std::string_view continuing_subword_prefix) {
  LargeVector<MergeTable::Merge> found(merges.size());
  const auto resolve = [&](size_t begin, size_t end) {
    return MergeResolver(vocabulary, continuing_subword_prefix)
        .Resolve(merges.subspan(begin, end - begin), begin, std::span(found).subspan(begin, end - begin));
  };
  if (merges.size() < kMergesForTwoThreads) {
    LAMINA_RETURN_IF_ERROR(resolve(0, merges.size()));
  } else {
    const size_t middle = merges.size() / 2;
    std::future<Status> second_half = RunBeside([&] { return resolve(middle, merges.size()); });
    LAMINA_RETURN_IF_ERROR(resolve(0, middle));
    LAMINA_RETURN_IF_ERROR(second_half.get());
  }
  return MergeTable(found);
}

}  // namespace lamina::text
