// Splits a template into tokens, with the white space rules of trim_blocks and lstrip_blocks: the newline
// after a block or comment goes, white space before a block on its own line goes, `-` strips all white space
// on its side and `+` keeps it. One newline at the end of the template goes as well.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lamina/status.h"
#include "text/jinja/value.h"

namespace lamina::jinja {

enum class TokenKind {
  kData,
  kBlockBegin,
  kBlockEnd,
  kVariableBegin,
  kVariableEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 1;
  std::string text;  // data, name, operator, or the value of a string literal
  Int integer = 0;
  double real = 0;

  bool IsName(std::string_view name) const { return kind == TokenKind::kName && text == name; }
  bool IsOperator(std::string_view op) const { return kind == TokenKind::kOperator && text == op; }
};

// How an error message names the token.
std::string Describe(const Token& token);

// The tokens with one kEnd at the end. INVALID_MODEL with the line.
Result<std::vector<Token>> Tokenize(std::string_view source);

}  // namespace lamina::jinja
