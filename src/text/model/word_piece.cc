#include "text/model/word_piece.h"

#include <algorithm>

#include "base/error.h"
#include "text/utf8.h"

namespace lamina::text {

WordPieceModel::WordPieceModel(Vocabulary vocabulary, WordPieceOptions options)
    : Model(std::move(vocabulary)), options_(std::move(options)) {
  for (size_t id = 0; id < this->vocabulary().id_limit(); ++id) {
    longest_token_bytes_ =
        std::max(longest_token_bytes_, this->vocabulary().Text(static_cast<TokenId>(id)).size());
  }
}

bool WordPieceModel::TokenizeWord(std::string_view word, uint32_t begin,
                                  std::vector<ModelToken>& tokens) const {
  std::string candidate;
  for (size_t start = 0; start < word.size();) {
    size_t end = std::min(word.size(), start + longest_token_bytes_);
    while (end < word.size() && IsUtf8Continuation(word[end])) --end;
    std::optional<TokenId> id;
    while (end > start) {
      std::string_view token = word.substr(start, end - start);
      if (start > 0) {
        candidate.assign(options_.continuing_subword_prefix).append(token);
        token = candidate;
      }
      id = vocabulary().Find(token);
      if (id) break;
      do --end;
      while (IsUtf8Continuation(word[end]));
    }
    if (!id) return false;
    tokens.push_back({*id, begin + static_cast<uint32_t>(start), begin + static_cast<uint32_t>(end)});
    start = end;
  }
  return true;
}

Status WordPieceModel::Tokenize(const PreTokenizedText& text, std::vector<ModelToken>& tokens) const {
  for (const PieceRange& piece : text.pieces) {
    const std::string_view word = text.Piece(piece);
    const size_t before = tokens.size();
    if (CountUtf8Chars(word) <= options_.max_input_chars_per_word && TokenizeWord(word, piece.begin, tokens))
      continue;
    tokens.resize(before);
    const std::optional<TokenId> unknown = vocabulary().Find(options_.unk_token);
    if (!unknown) {
      return InvalidModelError("WordPiece: unk_token '{}' is not in the vocabulary", options_.unk_token);
    }
    tokens.push_back({*unknown, piece.begin, piece.end});
  }
  return {};
}

}  // namespace lamina::text
