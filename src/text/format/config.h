// The files beside a tokenizer that name its special tokens: tokenizer_config.json, special_tokens_map.json
// and added_tokens.json.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lamina/status.h"
#include "text/tokenizer_impl.h"

namespace lamina::text {

// What the files say. All of it is optional.
struct TokenizerConfig {
  struct Added {
    AddedToken token;
    std::optional<TokenId> id;
  };
  // Spellings of the roles.
  std::optional<std::string> bos, eos, unk, pad, sep, cls, mask;
  std::vector<std::string> additional_special_tokens;
  std::vector<Added> added_tokens;  // of added_tokens_decoder and added_tokens.json, by id
  std::optional<bool> add_bos, add_eos;
  std::string tokenizer_class;  // without "Fast": "LlamaTokenizer"
  // For vocab.txt.
  std::optional<bool> do_lower_case, tokenize_chinese_chars, strip_accents;
  // For vocab.json.
  std::optional<bool> add_prefix_space;
};

// Reads what is there of the files in `folder` ("" is the current one).
Result<TokenizerConfig> ReadTokenizerConfig(const std::string& folder);

// Adds the tokens that the tokenizer does not have yet, marks the tokens of roles as special, fills
// TokenizerImpl::roles. REQUIRES: the model is loaded.
Status ApplyTokenizerConfig(const TokenizerConfig& config, TokenizerImpl& tokenizer);

// Fills roles that no file names with tokens of these spellings, where the tokenizer has them.
void SetDefaultRole(std::optional<TokenId>& role, const TokenizerImpl& tokenizer,
                    std::initializer_list<const char*> spellings);

}  // namespace lamina::text
