// Makes the merge table of a vocabulary from merges that are given by spelling.
#pragma once

#include <span>
#include <string_view>

#include "lamina/status.h"
#include "text/model/bpe_merges.h"
#include "text/vocabulary.h"

namespace lamina::text {

struct MergeSpelling {
  std::string_view left;
  std::string_view right;
};

// `merges` in order of rank. `continuing_subword_prefix` stands before the right part of a merge and not in
// what it merges to. INVALID_MODEL where a token is not in the vocabulary. Large tables are made by two
// threads.
Result<MergeTable> MakeMergeTable(const Vocabulary& vocabulary, std::span<const MergeSpelling> merges,
                                  std::string_view continuing_subword_prefix = {});

}  // namespace lamina::text
