// Byte-pair encoding as tokenizer.json describes it: GPT-2's byte level, SentencePiece's conversions with
// byte fallback, CLIP's end-of-word suffix.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/model/bpe_merges.h"
#include "text/model/model.h"

namespace lamina::text {

struct BpeOptions {
  std::optional<std::string> unk_token;
  std::string continuing_subword_prefix;  // before every character of a word but the first
  std::string end_of_word_suffix;         // behind the last
  bool fuse_unk = false;                  // neighbouring unknown characters become one unknown token
  bool byte_fallback = false;             // spell unknown characters as <0xNN>
  bool ignore_merges = false;             // a word that is a token stays whole
  // The pieces are plain bytes although the vocabulary is spelled in GPT-2's byte letters: spares the
  // rewriting of the text into letters.
  bool pieces_are_bytes = false;
};

class BpeModel : public Model {
 public:
  // The table must be consistent with the vocabulary.
  BpeModel(Vocabulary vocabulary, MergeTable merges, BpeOptions options);

  Status Tokenize(const PreTokenizedText& text, std::vector<ModelToken>& tokens) const override;

 private:
  struct Scratch;
  void FillSingles();
  struct Word;
  void LookAhead(std::string_view text, std::span<const PieceRange> pieces, Scratch& scratch) const;
  Status TokenizeWord(std::string_view text, const Word& word, Scratch& scratch,
                      std::vector<ModelToken>& tokens) const;
  Status MergePiece(std::string_view word, Scratch& scratch) const;
  Status SplitIntoSymbols(std::string_view word, std::vector<BpeSymbol>& symbols) const;
  std::optional<TokenId> SymbolId(std::string_view letters, bool first, bool last) const;
  bool AppendByteTokens(std::string_view letters, bool first, bool last,
                        std::vector<BpeSymbol>& symbols) const;
  std::string WithAffixes(std::string_view letters, bool first, bool last) const;

  BpeOptions options_;
  MergeTable merges_;
  bool has_affixes_ = false;
  bool looks_up_words_ = false;  // a word that is a token may stay whole
  std::optional<TokenId> unk_id_;
  std::array<int32_t, 256> singles_{};      // id of each byte (pieces_are_bytes) or ASCII character alone
  std::array<int32_t, 256> byte_tokens_{};  // id of <0xNN>

  // Whether merging the characters of a token gives the token itself: found out when it is first met.
  enum : uint8_t { kUnknown, kWhole, kDivided };
  std::unique_ptr<std::atomic<uint8_t>[]> whole_;
};

}  // namespace lamina::text
