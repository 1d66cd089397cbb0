// The parts of a tokenizer and how a text passes through them: added tokens cut the given text, the
// normalizer rewrites what lies between, added tokens cut again, the pre-tokenizer cuts into pieces, the
// model turns these into tokens, the post-processor adds what belongs around them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_vocabulary.h"
#include "text/decoder/decoder.h"
#include "text/model/model.h"
#include "text/normalizer/normalizer.h"
#include "text/post_processor/post_processor.h"
#include "text/pre_tokenizer/pre_tokenizer.h"
#include "text/tokenizer.h"

namespace lamina {

// Filled by a reader of some format, then immutable.
class TokenizerImpl {
 public:
  std::unique_ptr<text::Normalizer> normalizer;       // may be null
  std::unique_ptr<text::PreTokenizer> pre_tokenizer;  // may be null
  std::unique_ptr<text::Model> model;
  std::unique_ptr<text::PostProcessor> post_processor;  // may be null
  std::unique_ptr<text::Decoder> decoder;               // never null once loaded
  text::AddedVocabulary added;
  TokenRoles roles;
  std::optional<TruncationLimits> truncation;
  std::optional<PaddingRule> padding;
  // Invalid UTF-8: U+FFFD for each byte, as SentencePiece does, instead of one for each maximal invalid part.
  bool replaces_each_invalid_byte = false;

  // With `detailed`, all vectors of the result are filled, else `ids` alone.
  Result<Encoding> Encode(std::string_view text, const EncodeOptions& options, bool detailed) const;

  std::optional<TokenId> TokenToId(std::string_view token) const;
  // Empty where there is no such token; `exists` tells it from an empty spelling.
  std::string_view IdToToken(TokenId id, bool& exists) const;
  bool IsSpecial(TokenId id) const;
  size_t IdLimit() const;
  size_t VocabularySize() const;

 private:
  struct Collector;
  Status EncodeStretch(std::string_view stretch, size_t source_begin, const EncodeOptions& options,
                       Collector& collector) const;
  Status EncodePieces(text::NormalizedText text, Collector& collector) const;
  void Truncate(Encoding& encoding, bool with_special_tokens, bool detailed) const;
  void Pad(Encoding& encoding, bool detailed) const;
};

}  // namespace lamina
