// Cutting at the matches of a pattern: Split, and the pattern of ByteLevel.
#pragma once

#include "text/pattern.h"
#include "text/pre_tokenizer/pre_tokenizer.h"
#include "text/pre_tokenizer/split.h"

namespace lamina::text {

class PatternSplit : public PreTokenizer {
 public:
  // `inverted`: what the pattern does not match is the delimiter.
  PatternSplit(Pattern pattern, DelimiterBehavior behavior, bool inverted)
      : pattern_(std::move(pattern)), behavior_(behavior), inverted_(inverted) {}
  Status Split(PreTokenizedText& text) const override;

 private:
  Pattern pattern_;
  DelimiterBehavior behavior_;
  bool inverted_;
};

}  // namespace lamina::text
