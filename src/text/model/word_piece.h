// WordPiece as BERT uses it: the longest token first, then the longest continuation, or the word is unknown.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/model/model.h"

namespace lamina::text {

struct WordPieceOptions {
  std::string unk_token = "[UNK]";
  std::string continuing_subword_prefix = "##";
  uint64_t max_input_chars_per_word = 100;  // longer words are unknown
};

class WordPieceModel : public Model {
 public:
  WordPieceModel(Vocabulary vocabulary, WordPieceOptions options);
  // INVALID_MODEL where a word needs the unknown token and the vocabulary has none.
  Status Tokenize(const PreTokenizedText& text, std::vector<ModelToken>& tokens) const override;

 private:
  // Appends the word's tokens; false where it is unknown.
  bool TokenizeWord(std::string_view word, uint32_t begin, std::vector<ModelToken>& tokens) const;
  WordPieceOptions options_;
  size_t longest_token_bytes_ = 0;
};

}  // namespace lamina::text
