// SentencePiece's BPE: neighbours whose concatenation is a piece merge, the highest score first and the
// leftmost among equals.
#include <algorithm>
#include <queue>
#include <unordered_map>
#include <utility>

#include "text/model/sentence_piece.h"
#include "text/utf8.h"

namespace lamina::text {
namespace {

struct Symbol {
  uint32_t begin;
  uint32_t length;  // 0 once merged into its left neighbour
  int32_t previous;
  int32_t next;
  bool frozen;  // a user-defined piece
};

struct Candidate {
  float score;
  int32_t left;
  int32_t right;
  uint32_t length;  // of both together, to tell a candidate whose symbols have changed
  bool operator<(const Candidate& other) const {
    return score < other.score || (score == other.score && left > other.left);
  }
};

class SentencePieceBpe : public SentencePieceModel {
 public:
  explicit SentencePieceBpe(SentencePieceVocabulary pieces)
      : SentencePieceBpe(UserDefinedSpellings(pieces), std::move(pieces)) {}

 protected:
  void FindSegments(std::string_view piece, std::vector<Segment>& segments) const override;

 private:
  // How an unused piece came about, to take it apart again: length of its left part.
  using LeftLengths = std::unordered_map<std::string_view, uint32_t>;

  SentencePieceBpe(std::vector<std::string> user_defined, SentencePieceVocabulary pieces)
      : SentencePieceModel(std::move(pieces)), user_defined_spellings_(std::move(user_defined)) {
    std::vector<std::pair<std::string_view, int32_t>> entries;
    for (const std::string& spelling : user_defined_spellings_) entries.emplace_back(spelling, 0);
    user_defined_ = ByteTrie(std::move(entries));
    for (size_t id = 0; id < vocabulary().id_limit(); ++id) {
      longest_piece_bytes_ =
          std::max(longest_piece_bytes_, vocabulary().Text(static_cast<TokenId>(id)).size());
    }
  }

  std::vector<Symbol> SplitIntoSymbols(std::string_view piece) const;
  void AppendResegmented(std::string_view piece, uint32_t begin, uint32_t length,
                         const LeftLengths& left_lengths, std::vector<Segment>& segments) const;

  std::vector<std::string> user_defined_spellings_;
  ByteTrie user_defined_;
  size_t longest_piece_bytes_ = 0;
};

std::vector<Symbol> SentencePieceBpe::SplitIntoSymbols(std::string_view piece) const {
  std::vector<Symbol> symbols;
  symbols.reserve(piece.size());
  for (uint32_t pos = 0; pos < piece.size();) {
    const size_t user_defined = user_defined_.LongestPrefix(piece.substr(pos)).first;
    const auto length = user_defined > 0 ? static_cast<uint32_t>(user_defined) : Utf8Length(piece[pos]);
    const auto index = static_cast<int32_t>(symbols.size());
    symbols.push_back({pos, length, index - 1, index + 1, user_defined > 0});
    pos += length;
  }
  if (!symbols.empty()) symbols.back().next = -1;
  return symbols;
}

void SentencePieceBpe::AppendResegmented(std::string_view piece, uint32_t begin, uint32_t length,
                                         const LeftLengths& left_lengths,
                                         std::vector<Segment>& segments) const {
  const TokenId id = vocabulary().Find(piece.substr(begin, length)).value_or(unk_id());
  if (type(id) == SentencePieceType::kUnused) {
    const auto found = left_lengths.find(piece.substr(begin, length));
    if (found != left_lengths.end()) {
      AppendResegmented(piece, begin, found->second, left_lengths, segments);
      AppendResegmented(piece, begin + found->second, length - found->second, left_lengths, segments);
      return;
    }
  }
  segments.push_back({begin, begin + length, id});
}

void SentencePieceBpe::FindSegments(std::string_view piece, std::vector<Segment>& segments) const {
  std::vector<Symbol> symbols = SplitIntoSymbols(piece);
  std::priority_queue<Candidate> queue;
  LeftLengths left_lengths;
  const auto offer = [&](int32_t left, int32_t right) {
    if (left < 0 || right < 0) return;
    const Symbol& first = symbols[static_cast<size_t>(left)];
    const Symbol& second = symbols[static_cast<size_t>(right)];
    const uint32_t length = first.length + second.length;
    if (first.frozen || second.frozen || length > longest_piece_bytes_) return;
    const std::string_view joined = piece.substr(first.begin, length);
    const std::optional<TokenId> id = vocabulary().Find(joined);
    if (!id || !IsFindable(*id)) return;
    queue.push({score(*id), left, right, length});
    if (type(*id) == SentencePieceType::kUnused) left_lengths[joined] = first.length;
  };
  for (size_t i = 1; i < symbols.size(); ++i) offer(static_cast<int32_t>(i) - 1, static_cast<int32_t>(i));
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = symbols[static_cast<size_t>(best.left)];
    Symbol& right = symbols[static_cast<size_t>(best.right)];
    if (left.length == 0 || right.length == 0 || left.length + right.length != best.length) continue;
    left.length = best.length;
    right.length = 0;
    left.next = right.next;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = best.left;
    offer(left.previous, best.left);
    offer(best.left, left.next);
  }
  for (const Symbol& symbol : symbols) {
    if (symbol.length > 0) AppendResegmented(piece, symbol.begin, symbol.length, left_lengths, segments);
  }
}

}  // namespace

std::unique_ptr<Model> MakeSentencePieceBpe(SentencePieceVocabulary pieces) {
  return std::make_unique<SentencePieceBpe>(std::move(pieces));
}

}  // namespace lamina::text
