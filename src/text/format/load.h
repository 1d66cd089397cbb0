// Finding out what kind of tokenizer lies at a path, and reading it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "lamina/status.h"
#include "text/tokenizer_impl.h"

namespace lamina::text {

// See Tokenizer::Load.
Result<std::shared_ptr<const TokenizerImpl>> LoadTokenizer(const std::string& path);
Result<std::shared_ptr<const TokenizerImpl>> LoadTokenizerFromJson(std::string_view json,
                                                                   const std::string& name);

}  // namespace lamina::text
