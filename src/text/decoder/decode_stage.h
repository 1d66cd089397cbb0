// Decoding as a chain of stages, each of which rewrites a stream of tokens, so that text can leave the chain
// while tokens still come. Decoding a list at once is the same chain, fed at one go.
#pragma once

#include <string>
#include <string_view>

#include "lamina/status.h"
#include "text/pattern.h"

namespace lamina::text {

// Receives tokens in parts: Feed(part, begins, ends) with `begins` on the first part of a token and `ends` on
// its last. A token that is fused from many arrives in many parts, any of which may be empty. Parts are whole
// UTF-8 characters. Finish says that no token follows; a stage then passes on what it held back and calls the
// next one's Finish.
class DecodeStage {
 public:
  virtual ~DecodeStage() = default;
  virtual Status Feed(std::string_view part, bool begins, bool ends) = 0;
  virtual Status Finish() = 0;
};

// The end of a chain: collects the text.
class CollectStage : public DecodeStage {
 public:
  Status Feed(std::string_view part, bool, bool) override {
    text_ += part;
    return {};
  }
  Status Finish() override { return {}; }
  // The text collected since the last call.
  std::string Take() {
    std::string text;
    text.swap(text_);
    return text;
  }

 private:
  std::string text_;
};

// A stage that needs tokens whole.
class WholeTokenStage : public DecodeStage {
 public:
  explicit WholeTokenStage(DecodeStage& next) : next_(next) {}
  Status Feed(std::string_view part, bool begins, bool ends) final {
    if (begins && ends) return Token(part);
    if (begins) held_.clear();
    held_ += part;
    return ends ? Token(held_) : Status();
  }
  Status Finish() override { return next_.Finish(); }

 protected:
  virtual Status Token(std::string_view token) = 0;
  // Passes a whole token on.
  Status Pass(std::string_view token) { return next_.Feed(token, true, true); }
  DecodeStage& next() { return next_; }

 private:
  DecodeStage& next_;
  std::string held_;
};

}  // namespace lamina::text
