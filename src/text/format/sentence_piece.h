// SentencePiece's .model files: a protocol buffer of pieces, trainer and normalizer settings.
#pragma once

#include <string_view>

#include "lamina/status.h"
#include "text/format/config.h"
#include "text/tokenizer_impl.h"

namespace lamina::text {

// Fills `tokenizer`. `config` decides about BOS and EOS. UNSUPPORTED for word and character models,
// INVALID_MODEL for a malformed file.
Status ReadSentencePiece(std::string_view content, const TokenizerConfig& config, TokenizerImpl& tokenizer);

}  // namespace lamina::text
