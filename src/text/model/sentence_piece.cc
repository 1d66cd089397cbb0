#include "text/model/sentence_piece.h"

#include <fmt/format.h>

#include <utility>

namespace lamina::text {

SentencePieceModel::SentencePieceModel(SentencePieceVocabulary pieces)
    : Model(std::move(pieces.vocabulary)),
      scores_(std::move(pieces.scores)),
      types_(std::move(pieces.types)),
      unk_id_(pieces.unk_id),
      byte_fallback_(pieces.byte_fallback) {
  for (size_t byte = 0; byte < 256; ++byte) {
    byte_ids_[byte] = vocabulary().Find(fmt::format("<0x{:02X}>", byte)).value_or(unk_id_);
  }
}

bool SentencePieceModel::IsFindable(TokenId id) const {
  const SentencePieceType of_id = type(id);
  return of_id == SentencePieceType::kNormal || of_id == SentencePieceType::kUserDefined ||
         of_id == SentencePieceType::kUnused;
}

Status SentencePieceModel::Tokenize(const PreTokenizedText& text, std::vector<ModelToken>& tokens) const {
  std::vector<Segment> segments;
  for (const PieceRange& piece : text.pieces) {
    segments.clear();
    FindSegments(text.Piece(piece), segments);
    bool after_unknown = false;
    for (const Segment& segment : segments) {
      const uint32_t begin = piece.begin + segment.begin;
      const uint32_t end = piece.begin + segment.end;
      const bool unknown = segment.id == unk_id_;
      if (unknown && byte_fallback_) {
        for (uint32_t i = begin; i < end; ++i) {
          tokens.push_back({byte_ids_[static_cast<unsigned char>(text.text.text()[i])], i, i + 1});
        }
      } else if (unknown && after_unknown) {
        tokens.back().end = end;
      } else {
        tokens.push_back({segment.id, begin, end});
      }
      after_unknown = unknown;
    }
  }
  return {};
}

std::string SentencePieceModel::Spelling(const ModelToken& token, const PreTokenizedText& text) const {
  if (token.id == unk_id_) return std::string(text.Piece({token.begin, token.end}));
  return Model::Spelling(token, text);
}

std::vector<std::string> UserDefinedSpellings(const SentencePieceVocabulary& pieces) {
  std::vector<std::string> spellings;
  for (size_t id = 0; id < pieces.types.size(); ++id) {
    if (pieces.types[id] != SentencePieceType::kUserDefined) continue;
    spellings.emplace_back(pieces.vocabulary.Text(static_cast<TokenId>(id)));
  }
  return spellings;
}

}  // namespace lamina::text
