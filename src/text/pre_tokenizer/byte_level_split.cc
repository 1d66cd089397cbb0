#include "text/pre_tokenizer/byte_level_split.h"

#include <algorithm>
#include <utility>

namespace lamina::text {
namespace {

constexpr char kGpt2Pattern[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Rewrites the text under the pieces, one after another; rewrite(piece, rewriter) does one.
template <typename Rewrite>
void RewritePieces(PreTokenizedText& text, Rewrite rewrite) {
  Rewriter rewriter(text.text);
  for (PieceRange& piece : text.pieces) {
    const auto begin = static_cast<uint32_t>(rewriter.size());
    rewriter.StartPart(piece.begin, piece.end);
    rewrite(rewriter);
    piece = {begin, static_cast<uint32_t>(rewriter.size())};
  }
  std::move(rewriter).FinishInto(text.text);
}

}  // namespace

Result<std::unique_ptr<PreTokenizer>> ByteLevelSplit::Create(bool add_prefix_space, bool use_pattern,
                                                             bool write_letters) {
  std::unique_ptr<ByteLevelSplit> split(new ByteLevelSplit(add_prefix_space, write_letters));
  if (use_pattern) {
    LAMINA_ASSIGN_OR_RETURN(Pattern pattern, Pattern::Expression(kGpt2Pattern));
    split->pattern_.emplace(std::move(pattern), DelimiterBehavior::kIsolated, false);
  }
  return std::unique_ptr<PreTokenizer>(std::move(split));
}

Status ByteLevelSplit::Split(PreTokenizedText& text) const {
  const auto lacks_space = [&](const PieceRange& piece) { return !text.Piece(piece).starts_with(' '); };
  if (add_prefix_space_ && std::any_of(text.pieces.begin(), text.pieces.end(), lacks_space)) {
    RewritePieces(text, [](Rewriter& rewriter) {
      if (!rewriter.rest().starts_with(' ')) rewriter.Prepend(" ");
      rewriter.Keep(rewriter.rest().size());
    });
  }
  if (pattern_) LAMINA_RETURN_IF_ERROR(pattern_->Split(text));
  if (write_letters_) {
    RewritePieces(text, [](Rewriter& rewriter) {
      while (!rewriter.rest().empty()) rewriter.ReplaceByByteLetters();
    });
  }
  return {};
}

}  // namespace lamina::text
