// What turns pieces of text into tokens: BPE, Unigram, WordPiece, WordLevel.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lamina/status.h"
#include "text/normalized_text.h"
#include "text/vocabulary.h"

namespace lamina::text {

struct ModelToken {
  TokenId id = 0;
  // Bytes of PreTokenizedText::text that the token covers; may begin or end inside a character.
  uint32_t begin = 0;
  uint32_t end = 0;
};

// Immutable after loading, apart from what a model remembers to be faster; Tokenize may be called by many
// threads.
class Model {
 public:
  explicit Model(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const Vocabulary& vocabulary() const { return vocabulary_; }

  // Appends the tokens of every piece.
  virtual Status Tokenize(const PreTokenizedText& text, std::vector<ModelToken>& tokens) const = 0;

  // How the encoding spells the token; the vocabulary's spelling unless a model says otherwise.
  virtual std::string Spelling(const ModelToken& token, const PreTokenizedText& text) const {
    (void)text;
    return std::string(vocabulary_.Text(token.id));
  }

 private:
  Vocabulary vocabulary_;
};

}  // namespace lamina::text
