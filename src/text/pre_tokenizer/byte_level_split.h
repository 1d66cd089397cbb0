// ByteLevel: cuts as GPT-2 does and writes each byte as a letter (byte_level.h).
#pragma once

#include <memory>
#include <optional>

#include "text/pre_tokenizer/pattern_split.h"

namespace lamina::text {

class ByteLevelSplit : public PreTokenizer {
 public:
  // `use_pattern`: cut with GPT-2's pattern. `write_letters` false: leave the text as bytes.
  static Result<std::unique_ptr<PreTokenizer>> Create(bool add_prefix_space, bool use_pattern,
                                                      bool write_letters);
  Status Split(PreTokenizedText& text) const override;

 private:
  ByteLevelSplit(bool add_prefix_space, bool write_letters)
      : add_prefix_space_(add_prefix_space), write_letters_(write_letters) {}
  bool add_prefix_space_;
  bool write_letters_;
  std::optional<PatternSplit> pattern_;
};

}  // namespace lamina::text
