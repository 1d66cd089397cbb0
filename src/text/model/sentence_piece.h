// The two models of SentencePiece, as its own library applies them to the pieces of a .model file. (A
// conversion of such a file to tokenizer.json uses the models of that format, which differ in details.)
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/byte_trie.h"
#include "text/model/model.h"

namespace lamina::text {

enum class SentencePieceType : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,      // never found in a text
  kUserDefined = 4,  // always found, never merged with its neighbours
  kUnused = 5,       // takes part in merging but is never a result
  kByte = 6,
};

struct SentencePieceVocabulary {
  Vocabulary vocabulary;
  std::vector<float> scores;             // by id
  std::vector<SentencePieceType> types;  // by id
  TokenId unk_id = 0;
  bool byte_fallback = false;  // then all 256 byte pieces are there
};

// What both models share: the pieces, and what becomes of unknown characters.
class SentencePieceModel : public Model {
 public:
  explicit SentencePieceModel(SentencePieceVocabulary pieces);
  Status Tokenize(const PreTokenizedText& text, std::vector<ModelToken>& tokens) const final;
  // An unknown piece is spelled as it stands in the text.
  std::string Spelling(const ModelToken& token, const PreTokenizedText& text) const final;

 protected:
  // Part of a piece with its id.
  struct Segment {
    uint32_t begin;
    uint32_t end;
    TokenId id;
  };
  // Appends the segments of `piece`, end to end.
  virtual void FindSegments(std::string_view piece, std::vector<Segment>& segments) const = 0;

  SentencePieceType type(TokenId id) const { return types_[static_cast<size_t>(id)]; }
  float score(TokenId id) const { return scores_[static_cast<size_t>(id)]; }
  // Whether the piece can be found in a text by its spelling.
  bool IsFindable(TokenId id) const;
  TokenId unk_id() const { return unk_id_; }
  const std::vector<float>& scores() const { return scores_; }

 private:
  std::vector<float> scores_;
  std::vector<SentencePieceType> types_;
  TokenId unk_id_;
  bool byte_fallback_;
  std::array<TokenId, 256> byte_ids_{};
};

std::unique_ptr<Model> MakeSentencePieceBpe(SentencePieceVocabulary pieces);
std::unique_ptr<Model> MakeSentencePieceUnigram(SentencePieceVocabulary pieces);

// The spellings of user-defined pieces, which normalization leaves alone as well.
std::vector<std::string> UserDefinedSpellings(const SentencePieceVocabulary& pieces);

}  // namespace lamina::text
