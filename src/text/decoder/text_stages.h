// Stages that rewrite the spelling of tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "text/decoder/decode_stage.h"

namespace lamina::text {

// Fuse: all tokens become one.
class FuseStage : public DecodeStage {
 public:
  explicit FuseStage(DecodeStage& next) : next_(next) {}
  Status Feed(std::string_view part, bool begins, bool ends) override;
  Status Finish() override;

 private:
  DecodeStage& next_;
  bool begun_ = false;
};

// Strip: up to `start` characters `content` go from the front of each token and up to `stop` from its end.
class StripStage : public DecodeStage {
 public:
  StripStage(DecodeStage& next, std::string_view content, uint64_t start, uint64_t stop)
      : next_(next), content_(content), start_(start), stop_(stop) {}
  Status Feed(std::string_view part, bool begins, bool ends) override;
  Status Finish() override { return next_.Finish(); }

 private:
  DecodeStage& next_;
  std::string_view content_;  // one character
  uint64_t start_;
  uint64_t stop_;
  uint64_t may_strip_ = 0;      // at the front of the current token
  uint64_t trailing_held_ = 0;  // how often `content` has come last and is held back
  bool passed_begin_ = false;
};

// Replace: matches of a pattern become `content`. A literal pattern is replaced as parts come, a regular
// expression when its token is complete.
class ReplaceStage : public DecodeStage {
 public:
  ReplaceStage(DecodeStage& next, const Pattern& pattern, std::string_view content)
      : next_(next), pattern_(pattern), matcher_(pattern), content_(content) {}
  Status Feed(std::string_view part, bool begins, bool ends) override;
  Status Finish() override { return next_.Finish(); }

 private:
  DecodeStage& next_;
  const Pattern& pattern_;
  Pattern::Matcher matcher_;
  std::string_view content_;
  std::string held_;
  bool passed_begin_ = false;
};

// Metaspace: the replacement character becomes a space, or nothing in the first token if one was prepended.
class MetaspaceStage : public DecodeStage {
 public:
  MetaspaceStage(DecodeStage& next, std::string_view replacement, bool drop_in_first)
      : next_(next), replacement_(replacement), drop_in_first_(drop_in_first) {}
  Status Feed(std::string_view part, bool begins, bool ends) override;
  Status Finish() override;

 private:
  DecodeStage& next_;
  std::string_view replacement_;
  bool drop_in_first_;
  bool in_first_ = true;
};

// WordPiece: continuations lose their prefix, other tokens but the first get a space; English spacing is
// cleaned up within each token on request.
class WordPieceStage : public WholeTokenStage {
 public:
  WordPieceStage(DecodeStage& next, std::string_view prefix, bool cleanup)
      : WholeTokenStage(next), prefix_(prefix), cleanup_(cleanup) {}
  Status Finish() override;

 protected:
  Status Token(std::string_view token) override;

 private:
  std::string_view prefix_;
  bool cleanup_;
  bool first_ = true;
};

// BPEDecoder: the end-of-word suffix becomes a space, or nothing in the last token; so one token is held
// back.
class BpeSuffixStage : public WholeTokenStage {
 public:
  BpeSuffixStage(DecodeStage& next, std::string_view suffix) : WholeTokenStage(next), suffix_(suffix) {}
  Status Finish() override;

 protected:
  Status Token(std::string_view token) override;

 private:
  Status PassReplaced(std::string_view token, std::string_view replacement);
  std::string_view suffix_;
  std::string held_;
  bool holding_ = false;
};

// CTC: repeated tokens count once, padding goes, the word delimiter becomes a space.
class CtcStage : public WholeTokenStage {
 public:
  CtcStage(DecodeStage& next, std::string_view pad, std::string_view word_delimiter, bool cleanup)
      : WholeTokenStage(next), pad_(pad), word_delimiter_(word_delimiter), cleanup_(cleanup) {}
  Status Finish() override;

 protected:
  Status Token(std::string_view token) override;

 private:
  std::string_view pad_;
  std::string_view word_delimiter_;
  bool cleanup_;
  std::string previous_;
  bool any_ = false;
};

// Tokens joined by spaces.
class JoinStage : public WholeTokenStage {
 public:
  using WholeTokenStage::WholeTokenStage;
  Status Finish() override;

 protected:
  Status Token(std::string_view token) override;

 private:
  bool first_ = true;
};

// `text` with every `from` replaced by `to`. An empty `from` leaves it as it is.
std::string ReplaceAll(std::string_view text, std::string_view from, std::string_view to);
// The spacing of English as the reference library cleans it: " ." -> ".", " n't" -> "n't" and so on.
std::string CleanUpEnglish(std::string text);

}  // namespace lamina::text
