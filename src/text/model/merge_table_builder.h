// Makes the merge table of a vocabulary from merges that are given by spelling.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "lamina/status.h"
#include "text/model/bpe_merges.h"
#include "text/vocabulary.h"

namespace lamina::text {

// Looks spellings up in batches: half a million merges are one and a half million accesses to tables that fit
// no cache, and those of a batch overlap.
class MergeTableBuilder {
 public:
  // `vocabulary` must outlive it. `expected_merges` sizes the table. `continuing_subword_prefix` stands
  // before the right part of a merge and not in what it merges to.
  MergeTableBuilder(const Vocabulary& vocabulary, size_t expected_merges,
                    std::string_view continuing_subword_prefix = {});

  // Merges in order of rank; the strings must live until Finish. INVALID_MODEL, perhaps only later, where a
  // token is not in the vocabulary.
  Status Add(std::string_view left, std::string_view right);
  Result<MergeTable> Finish();

 private:
  static constexpr size_t kBatch = 32;
  struct Pending {
    std::string_view left;
    std::string_view right;
    size_t merged_begin = 0;  // in merged_
    size_t merged_length = 0;
    std::array<uint64_t, 3> hashes{};  // of left, right, merged
  };
  Status Flush();
  Result<TokenId> Find(std::string_view token, uint64_t hash) const;

  const Vocabulary& vocabulary_;
  std::string prefix_;
  MergeTable table_;
  uint32_t next_rank_ = 0;
  std::array<Pending, kBatch> pending_;
  size_t num_pending_ = 0;
  std::string merged_;  // spellings of the pending results
};

}  // namespace lamina::text
