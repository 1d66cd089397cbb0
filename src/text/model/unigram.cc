#include "text/model/unigram.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "text/utf8.h"

namespace lamina::text {
namespace {

constexpr double kUnknownPenalty = 10.0;

}  // namespace

UnigramModel::UnigramModel(Vocabulary vocabulary, std::vector<double> scores, std::optional<TokenId> unk_id,
                           bool byte_fallback)
    : Model(std::move(vocabulary)),
      scores_(std::move(scores)),
      unk_id_(unk_id),
      byte_fallback_(byte_fallback) {
  double least = std::numeric_limits<double>::infinity();
  for (double score : scores_) least = std::min(least, score);
  unknown_score_ = least - kUnknownPenalty;
  std::vector<std::pair<std::string_view, int32_t>> entries;
  entries.reserve(scores_.size());
  for (size_t id = 0; id < scores_.size(); ++id) {
    entries.emplace_back(this->vocabulary().Text(static_cast<TokenId>(id)), static_cast<int32_t>(id));
  }
  trie_ = ByteTrie(std::move(entries));
  for (size_t byte = 0; byte < 256; ++byte) {
    byte_tokens_[byte] = this->vocabulary().Find(fmt::format("<0x{:02X}>", byte));
  }
}

void UnigramModel::AppendUnknown(std::string_view unknown, uint32_t begin,
                                 std::vector<ModelToken>& tokens) const {
  const uint32_t end = begin + static_cast<uint32_t>(unknown.size());
  // Neighbouring unknown characters are one piece, which may be a token after all.
  if (const std::optional<TokenId> id = vocabulary().Find(unknown)) {
    tokens.push_back({*id, begin, end});
    return;
  }
  const auto has_token = [&](char byte) {
    return byte_tokens_[static_cast<unsigned char>(byte)].has_value();
  };
  if (byte_fallback_ && std::all_of(unknown.begin(), unknown.end(), has_token)) {
    for (char byte : unknown) tokens.push_back({*byte_tokens_[static_cast<unsigned char>(byte)], begin, end});
    return;
  }
  tokens.push_back({*unk_id_, begin, end});
}

Status UnigramModel::TokenizePiece(std::string_view piece, uint32_t begin, std::vector<Node>& nodes,
                                   std::vector<ModelToken>& tokens) const {
  // nodes[i]: the best way to segment the first i bytes.
  nodes.assign(piece.size() + 1, {});
  const auto offer = [&](size_t end, uint32_t start, double score, TokenId id) {
    Node& node = nodes[end];
    if (!node.reached || score > node.score) node = {score, start, id, true};
  };
  for (size_t start = 0; start < piece.size();) {
    const double score_here = nodes[start].score;
    const uint32_t char_length = Utf8Length(piece[start]);
    bool has_single = false;
    trie_.ForEachPrefix(piece.substr(start), [&](size_t length, int32_t id) {
      offer(start + length, static_cast<uint32_t>(start), score_here + scores_[static_cast<size_t>(id)], id);
      has_single = has_single || length == char_length;
    });
    if (!has_single) {
      if (!unk_id_)
        return InvalidModelError("Unigram: '{}' has no token and unk_id is not set",
                                 piece.substr(start, char_length));
      offer(start + char_length, static_cast<uint32_t>(start), score_here + unknown_score_, *unk_id_);
    }
    start += char_length;
  }
  const size_t first_token = tokens.size();
  size_t end = piece.size();
  while (end > 0) {
    size_t start = nodes[end].begin;
    if (unk_id_ && nodes[end].id == *unk_id_) {
      while (start > 0 && nodes[start].id == *unk_id_) start = nodes[start].begin;
      const size_t before = tokens.size();
      AppendUnknown(piece.substr(start, end - start), begin + static_cast<uint32_t>(start), tokens);
      std::reverse(tokens.begin() + static_cast<long>(before), tokens.end());  // turned round again below
    } else {
      tokens.push_back(
          {nodes[end].id, begin + static_cast<uint32_t>(start), begin + static_cast<uint32_t>(end)});
    }
    end = start;
  }
  std::reverse(tokens.begin() + static_cast<long>(first_token), tokens.end());
  return {};
}

Status UnigramModel::Tokenize(const PreTokenizedText& text, std::vector<ModelToken>& tokens) const {
  std::vector<Node> nodes;
  for (const PieceRange& piece : text.pieces) {
    LAMINA_RETURN_IF_ERROR(TokenizePiece(text.Piece(piece), piece.begin, nodes, tokens));
  }
  return {};
}

std::string UnigramModel::Spelling(const ModelToken& token, const PreTokenizedText& text) const {
  if (unk_id_ && token.id == *unk_id_) return std::string(text.Piece({token.begin, token.end}));
  return Model::Spelling(token, text);
}

}  // namespace lamina::text
