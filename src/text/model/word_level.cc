#include "text/model/word_level.h"

#include "base/error.h"

namespace lamina::text {

Status WordLevelModel::Tokenize(const PreTokenizedText& text, std::vector<ModelToken>& tokens) const {
  for (const PieceRange& piece : text.pieces) {
    std::optional<TokenId> id = vocabulary().Find(text.Piece(piece));
    if (!id) id = vocabulary().Find(unk_token_);
    if (!id) return InvalidModelError("WordLevel: unk_token '{}' is not in the vocabulary", unk_token_);
    tokens.push_back({*id, piece.begin, piece.end});
  }
  return {};
}

}  // namespace lamina::text
