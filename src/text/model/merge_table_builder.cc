#include "text/model/merge_table_builder.h"

#include <utility>

#include "base/error.h"

namespace lamina::text {

MergeTableBuilder::MergeTableBuilder(const Vocabulary& vocabulary, size_t expected_merges,
                                     std::string_view continuing_subword_prefix)
    : vocabulary_(vocabulary), prefix_(continuing_subword_prefix) {
  table_.Reserve(expected_merges);
}

Result<TokenId> MergeTableBuilder::Find(std::string_view token, uint64_t hash) const {
  if (const std::optional<TokenId> id = vocabulary_.FindHashed(token, hash)) return *id;
  return InvalidModelError("BPE merge: token '{}' is not in the vocabulary", token);
}

Status MergeTableBuilder::Add(std::string_view left, std::string_view right) {
  if (right.size() < prefix_.size()) {
    return InvalidModelError("BPE merge {}: '{}' is shorter than continuing_subword_prefix",
                             next_rank_ + num_pending_, right);
  }
  Pending& merge = pending_[num_pending_++];
  merge.left = left;
  merge.right = right;
  merge.merged_begin = merged_.size();
  merged_.append(left).append(right.substr(prefix_.size()));
  merge.merged_length = merged_.size() - merge.merged_begin;
  const std::string_view merged = std::string_view(merged_).substr(merge.merged_begin);
  merge.hashes = {HashBytes(left), HashBytes(right), HashBytes(merged)};
  for (const uint64_t hash : merge.hashes) vocabulary_.Prefetch(hash);
  return num_pending_ == kBatch ? Flush() : Status();
}

Status MergeTableBuilder::Flush() {
  for (size_t i = 0; i < num_pending_; ++i) {
    for (const uint64_t hash : pending_[i].hashes) vocabulary_.PrefetchSpelling(hash);
  }
  std::array<MergeTable::Merge, kBatch> found;
  for (size_t i = 0; i < num_pending_; ++i) {
    const Pending& merge = pending_[i];
    const auto merged = std::string_view(merged_).substr(merge.merged_begin, merge.merged_length);
    LAMINA_ASSIGN_OR_RETURN(const TokenId left_id, Find(merge.left, merge.hashes[0]));
    LAMINA_ASSIGN_OR_RETURN(const TokenId right_id, Find(merge.right, merge.hashes[1]));
    LAMINA_ASSIGN_OR_RETURN(const TokenId merged_id, Find(merged, merge.hashes[2]));
    found[i] = {left_id, right_id, {next_rank_++, merged_id}};
    table_.Prefetch(left_id, right_id);
  }
  for (size_t i = 0; i < num_pending_; ++i) table_.Insert(found[i]);
  num_pending_ = 0;
  merged_.clear();
  return Status();
}

Result<MergeTable> MergeTableBuilder::Finish() {
  LAMINA_RETURN_IF_ERROR(Flush());
  return std::move(table_);
}

}  // namespace lamina::text
