// The older forms of two tokenizers: vocab.json with merges.txt (GPT-2, RoBERTa, CLIP's relatives) and
// vocab.txt (BERT).
#pragma once

#include <string_view>

#include "lamina/status.h"
#include "text/format/config.h"
#include "text/tokenizer_impl.h"

namespace lamina::text {

// Byte-level BPE.
Status ReadVocabAndMerges(std::string_view vocab_json, std::string_view merges_txt,
                          const TokenizerConfig& config, TokenizerImpl& tokenizer);

// WordPiece: one token a line, its number being the id. Lower case unless `config` says otherwise.
Status ReadVocabTxt(std::string_view content, const TokenizerConfig& config, TokenizerImpl& tokenizer);

}  // namespace lamina::text
