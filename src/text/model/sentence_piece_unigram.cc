// SentencePiece's unigram model: Viterbi with sums kept as float, as its library does, since a rounding
// decides between segmentations of nearly equal score.
#include <algorithm>
#include <limits>
#include <utility>

#include "text/model/sentence_piece.h"
#include "text/utf8.h"

namespace lamina::text {
namespace {

constexpr float kUnknownPenalty = 10.0f;

class SentencePieceUnigram : public SentencePieceModel {
 public:
  explicit SentencePieceUnigram(SentencePieceVocabulary pieces) : SentencePieceModel(std::move(pieces)) {
    std::vector<std::pair<std::string_view, int32_t>> entries;
    for (size_t i = 0; i < scores().size(); ++i) {
      const auto id = static_cast<TokenId>(i);
      if (type(id) == SentencePieceType::kNormal) {
        min_score_ = std::min(min_score_, score(id));
        max_score_ = std::max(max_score_, score(id));
      }
      if (IsFindable(id)) entries.emplace_back(vocabulary().Text(id), id);
    }
    trie_ = ByteTrie(std::move(entries));
  }

 protected:
  void FindSegments(std::string_view piece, std::vector<Segment>& segments) const override;

 private:
  ByteTrie trie_;
  float min_score_ = std::numeric_limits<float>::max();
  float max_score_ = std::numeric_limits<float>::min();  // as in the library: the least positive one
};

void SentencePieceUnigram::FindSegments(std::string_view piece, std::vector<Segment>& segments) const {
  struct Node {
    TokenId id = -1;
    float score = 0;
    int32_t begin = -1;
  };
  std::vector<Node> best(piece.size() + 1);  // [i]: the best way to segment the first i bytes
  const auto offer = [&](size_t end, size_t begin, double score, TokenId id) {
    Node& node = best[end];
    if (node.begin < 0 || score > node.score)
      node = {id, static_cast<float>(score), static_cast<int32_t>(begin)};
  };
  const float unknown_score = min_score_ - kUnknownPenalty;
  for (size_t begin = 0; begin < piece.size();) {
    const float score_here = best[begin].score;
    const uint32_t char_length = Utf8Length(piece[begin]);
    bool has_single = false;
    trie_.ForEachPrefix(piece.substr(begin), [&](size_t length, int32_t id) {
      if (type(id) == SentencePieceType::kUnused) return;
      // A user-defined piece is worth more than any segmentation of it.
      const double piece_score = type(id) == SentencePieceType::kUserDefined
                                     ? static_cast<float>(length) * max_score_ - 0.1
                                     : static_cast<double>(score(id));
      offer(begin + length, begin, piece_score + score_here, id);
      has_single = has_single || length == char_length;
    });
    if (!has_single) offer(begin + char_length, begin, unknown_score + score_here, unk_id());
    begin += char_length;
  }
  const size_t first = segments.size();
  for (auto end = static_cast<uint32_t>(piece.size()); end > 0;) {
    const auto begin = static_cast<uint32_t>(best[end].begin);
    segments.push_back({begin, end, best[end].id});
    end = begin;
  }
  std::reverse(segments.begin() + static_cast<long>(first), segments.end());
}

}  // namespace

std::unique_ptr<Model> MakeSentencePieceUnigram(SentencePieceVocabulary pieces) {
  return std::make_unique<SentencePieceUnigram>(std::move(pieces));
}

}  // namespace lamina::text
