// What is put around an encoded text: the "post_processor" of tokenizer.json.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lamina/status.h"
#include "text/tokenizer.h"

namespace lamina::text {

struct ProcessOptions {
  bool add_special_tokens = false;
  bool detailed = false;  // all vectors of the encoding are filled; else `ids` alone
};

// Immutable; usable by many threads.
class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  // Processes `encoding` in place. `text` is what spans index.
  virtual void Process(Encoding& encoding, std::string_view text, const ProcessOptions& options) const = 0;
  // Tokens that Process adds with add_special_tokens.
  virtual size_t AddedTokens() const = 0;
};

// The post-processor that `json` describes: Sequence, TemplateProcessing, BertProcessing, RobertaProcessing,
// ByteLevel. UNSUPPORTED names any other type. Of pair templates only the form is checked.
Result<std::unique_ptr<PostProcessor>> MakePostProcessor(const nlohmann::json& json);

// Puts fixed tokens before and after the text: what formats without a post-processor need for BOS and EOS.
using SpecialToken = std::pair<TokenId, std::string>;
std::unique_ptr<PostProcessor> MakeAffixProcessor(std::vector<SpecialToken> before,
                                                  std::vector<SpecialToken> after);

}  // namespace lamina::text
