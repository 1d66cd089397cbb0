// Unigram: the segmentation with the greatest sum of scores (Viterbi over the pieces that match at each
// position). As tokenizer.json describes it; SentencePiece's own files use it through format/sentence_piece.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "text/byte_trie.h"
#include "text/model/model.h"

namespace lamina::text {

class UnigramModel : public Model {
 public:
  // scores[id] belongs to the token `id`. REQUIRES: unk_id, if any, is a token.
  UnigramModel(Vocabulary vocabulary, std::vector<double> scores, std::optional<TokenId> unk_id,
               bool byte_fallback);

  // INVALID_MODEL where a character has no token and there is no unknown one.
  Status Tokenize(const PreTokenizedText& text, std::vector<ModelToken>& tokens) const override;
  // An unknown piece is spelled as it stands in the text.
  std::string Spelling(const ModelToken& token, const PreTokenizedText& text) const override;

 private:
  struct Node {
    double score = 0;
    uint32_t begin = 0;
    TokenId id = 0;
    bool reached = false;
  };
  Status TokenizePiece(std::string_view piece, uint32_t begin, std::vector<Node>& nodes,
                       std::vector<ModelToken>& tokens) const;
  void AppendUnknown(std::string_view unknown, uint32_t begin, std::vector<ModelToken>& tokens) const;

  std::vector<double> scores_;
  std::optional<TokenId> unk_id_;
  bool byte_fallback_;
  double unknown_score_ = 0;
  ByteTrie trie_;
  std::array<std::optional<TokenId>, 256> byte_tokens_;  // of <0x00> to <0xFF>
};

}  // namespace lamina::text
