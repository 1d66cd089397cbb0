// WordLevel: each piece is a token or unknown.
#pragma once

#include <string>
#include <vector>

#include "text/model/model.h"

namespace lamina::text {

class WordLevelModel : public Model {
 public:
  WordLevelModel(Vocabulary vocabulary, std::string unk_token)
      : Model(std::move(vocabulary)), unk_token_(std::move(unk_token)) {}
  // INVALID_MODEL where a word needs the unknown token and the vocabulary has none.
  Status Tokenize(const PreTokenizedText& text, std::vector<ModelToken>& tokens) const override;

 private:
  std::string unk_token_;
};

}  // namespace lamina::text
