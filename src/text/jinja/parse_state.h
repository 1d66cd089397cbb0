// What the two halves of the parser (expressions, statements) share: the token stream and the first error.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "lamina/status.h"
#include "text/jinja/lexer.h"

namespace lamina::jinja {

// The first error is kept; the stream then stands at its end, so that parsing unwinds.
class ParseState {
 public:
  explicit ParseState(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[position_]; }
  const Token& look() const { return tokens_[std::min(position_ + 1, tokens_.size() - 1)]; }
  // The current token, moving on.
  const Token& Next() {
    const Token& token = tokens_[position_];
    if (position_ + 1 < tokens_.size()) ++position_;
    return token;
  }
  bool AtEnd() const { return current().kind == TokenKind::kEnd; }
  bool SkipOperator(std::string_view op) { return current().IsOperator(op) && (Next(), true); }
  bool SkipName(std::string_view name) { return current().IsName(name) && (Next(), true); }
  void ExpectOperator(std::string_view op) {
    if (!SkipOperator(op)) FailExpected(op);
  }
  void ExpectName(std::string_view name) {
    if (!SkipName(name)) FailExpected(name);
  }
  void Expect(TokenKind kind) {
    if (current().kind == kind) {
      Next();
      return;
    }
    Token wanted;
    wanted.kind = kind;
    FailExpected(kind == TokenKind::kName ? "name" : Describe(wanted));
  }
  // The text of a name token.
  std::string TakeName() {
    const Token& token = current();
    if (token.kind != TokenKind::kName) {
      FailExpected("name");
      return {};
    }
    return Next().text;
  }

  bool failed() const { return !status_.ok(); }
  const Status& status() const { return status_; }
  void Fail(int line, std::string_view reason) {
    if (failed()) return;
    status_ = Status(StatusCode::kInvalidModel, fmt::format("line {}: {}", line, reason));
    position_ = tokens_.size() - 1;
  }
  void FailExpected(std::string_view expected) {
    if (AtEnd()) {
      Fail(current().line, fmt::format("unexpected end of template, expected '{}'", expected));
    } else {
      Fail(current().line, fmt::format("expected token '{}', got '{}'", expected, Describe(current())));
    }
  }

  // Bounds the recursion of the parser.
  static constexpr int kMaxNesting = 150;
  bool Enter() {
    if (++nesting_ > kMaxNesting) Fail(current().line, "expressions or statements are nested too deeply");
    return !failed();
  }
  void Leave() { --nesting_; }

 private:
  std::vector<Token> tokens_;
  size_t position_ = 0;
  int nesting_ = 0;
  Status status_;
};

class NestingScope {
 public:
  explicit NestingScope(ParseState& state) : state_(state) { state_.Enter(); }
  ~NestingScope() { state_.Leave(); }
  NestingScope(const NestingScope&) = delete;
  NestingScope& operator=(const NestingScope&) = delete;

 private:
  ParseState& state_;
};

}  // namespace lamina::jinja
