// Cutting a text into the pieces that the model sees one by one: the "pre_tokenizer" of tokenizer.json.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lamina/status.h"
#include "text/normalized_text.h"

namespace lamina::text {

// Immutable; usable by many threads.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Cuts the pieces of `text` further; may rewrite the text under them.
  virtual Status Split(PreTokenizedText& text) const = 0;
  // Whether the cut depends on where a piece stands in the given text, so that sources must be tracked.
  virtual bool NeedsSources() const { return false; }
};

// The pre-tokenizer that `json` describes: Sequence, ByteLevel, Metaspace, Split, Digits, Punctuation,
// Whitespace, WhitespaceSplit, UnicodeScripts, BertPreTokenizer, CharDelimiterSplit, FixedLength. UNSUPPORTED
// names any other type.
//
// `leave_bytes`: a ByteLevel at the end cuts only and does not rewrite each byte as a letter, for a model
// that reads plain bytes. Ask EndsInByteLevel first.
Result<std::unique_ptr<PreTokenizer>> MakePreTokenizer(const nlohmann::json& json, bool leave_bytes);

// Whether the last step of the pre-tokenizer is ByteLevel.
bool EndsInByteLevel(const nlohmann::json& json);

}  // namespace lamina::text
