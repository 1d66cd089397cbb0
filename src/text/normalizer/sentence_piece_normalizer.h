// SentencePiece's normalization: its compiled character map, then its rules for white space.
#pragma once

#include <memory>
#include <optional>

#include "text/byte_trie.h"
#include "text/chars_map.h"
#include "text/normalizer/normalizer.h"

namespace lamina::text {

struct SentencePieceNormalizerOptions {
  bool add_dummy_prefix = true;          // a space in front, so that a first word looks like any other
  bool remove_extra_whitespaces = true;  // at both ends, and all but one inside
  bool escape_whitespaces = true;        // write spaces as "▁"
  bool whitespace_as_suffix = false;     // the dummy prefix comes last instead
};

// `user_defined`: spellings that are left as they are.
std::unique_ptr<Normalizer> MakeSentencePieceNormalizer(const SentencePieceNormalizerOptions& options,
                                                        std::optional<CharsMap> map,
                                                        std::vector<std::string> user_defined);

}  // namespace lamina::text
