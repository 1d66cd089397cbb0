// tiktoken's rank files: a token in base64 and its rank, one a line. They hold no pattern and no special
// tokens, so only known encodings can be read: these are told by file name or by the number of ranks.
#pragma once

#include <string>
#include <string_view>

#include "lamina/status.h"
#include "text/tokenizer_impl.h"

namespace lamina::text {

// Whether `content` begins like such a file; a SentencePiece model may have the same name.
bool LooksLikeTiktoken(std::string_view content);

// Fills `tokenizer`; the special tokens of the encoding are added. UNSUPPORTED for an encoding that is not
// known.
Status ReadTiktoken(std::string_view content, const std::string& file_name, TokenizerImpl& tokenizer);

}  // namespace lamina::text
