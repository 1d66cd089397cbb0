// Rewriting of a text before it is cut into pieces: the "normalizer" of tokenizer.json.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lamina/status.h"
#include "text/normalized_text.h"

namespace lamina::text {

// Immutable; usable by many threads.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual Status Normalize(NormalizedText& text) const = 0;
};

// The normalizer that `json` describes: Sequence, NFC, NFD, NFKC, NFKD, Nmt, Lowercase, Strip, StripAccents,
// Replace, Prepend, BertNormalizer, Precompiled, ByteLevel. UNSUPPORTED names any other type.
Result<std::unique_ptr<Normalizer>> MakeNormalizer(const nlohmann::json& json);

// Makers of single normalizers, for formats other than tokenizer.json.
struct BertNormalizerOptions {
  bool clean_text = true;            // control characters go, white space becomes the space
  bool handle_chinese_chars = true;  // spaces around Chinese characters
  bool strip_accents = true;
  bool lowercase = true;
};
std::unique_ptr<Normalizer> MakeBertNormalizer(const BertNormalizerOptions& options);
// `charsmap`: a compiled map of SentencePiece (see chars_map.h), INVALID_MODEL where it is malformed.
Result<std::unique_ptr<Normalizer>> MakePrecompiledNormalizer(std::string charsmap);

}  // namespace lamina::text
