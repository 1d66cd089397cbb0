// Metaspace: spaces become a visible character ("▁"), with one put in front, and pieces begin at it.
#pragma once

#include <string>

#include "text/json_fields.h"
#include "text/pre_tokenizer/pre_tokenizer.h"

namespace lamina::text {

// Which pieces get a replacement character in front where they have none.
enum class PrependScheme {
  kAlways,
  kNever,
  kFirst,  // only a piece at the very start of the given text
};

// Of the fields prepend_scheme and, from older files, add_prefix_space. Also used by the decoder of this
// name.
Result<PrependScheme> ParsePrependScheme(const JsonFields& fields);

class Metaspace : public PreTokenizer {
 public:
  Metaspace(char32_t replacement, PrependScheme scheme, bool split);
  Status Split(PreTokenizedText& text) const override;
  bool NeedsSources() const override { return scheme_ == PrependScheme::kFirst; }

 private:
  std::string replacement_;
  PrependScheme scheme_;
  bool split_;
};

}  // namespace lamina::text
