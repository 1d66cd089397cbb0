// The format of the Hugging Face `tokenizers` library.
#pragma once

#include <string_view>

#include "lamina/status.h"
#include "text/tokenizer_impl.h"

namespace lamina::text {

// Fills `tokenizer` from the content of a tokenizer.json; added tokens are added but not prepared, so that
// others can follow. `json` need not outlive the call.
Status ReadTokenizerJson(std::string_view json, TokenizerImpl& tokenizer);

}  // namespace lamina::text
