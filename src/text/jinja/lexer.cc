#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.h"
#include "text/jinja/unicode.h"

namespace lamina::jinja {

namespace {

// Operators, longest first.
constexpr std::array<std::string_view, 26> kOperators = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                         "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                         ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

bool IsAsciiDigit(char c) { return c >= '0' && c <= '9'; }

// One kind of newline, and none at the very end.
std::string NormalizeNewlines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text += source[i];
      continue;
    }
    text += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

int HexDigit(char c) {
  if (IsAsciiDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(NormalizeNewlines(source)) {}

  Result<std::vector<Token>> Run() {
    while (status_.ok() && position_ < source_.size()) LexRoot();
    if (!status_.ok()) return status_;
    Add(TokenKind::kEnd);
    return std::move(tokens_);
  }

 private:
  // Template data up to the next tag, then the tag.
  void LexRoot() {
    const size_t tag = FindTag(position_);
    if (tag == std::string::npos) {
      AddData(source_.substr(position_));
      position_ = source_.size();
      return;
    }
    const char type = source_[tag + 1];
    size_t after_sign = tag + 2;
    char sign = 0;
    if (after_sign < source_.size() && (source_[after_sign] == '-' || source_[after_sign] == '+')) {
      sign = source_[after_sign++];
    }
    AddData(StripBeforeTag(std::string_view(source_).substr(position_, tag - position_), sign, type != '{'));
    position_ = tag;
    SetLineHere();
    size_t raw_end = 0;
    if (type == '%' && MatchRawBegin(after_sign, &raw_end)) {
      MoveTo(raw_end);
      LexRaw();
    } else if (type == '#') {
      MoveTo(after_sign);
      LexComment();
    } else {
      MoveTo(after_sign);
      LexTag(type == '%');
    }
  }

  size_t FindTag(size_t from) const {
    for (size_t i = source_.find('{', from); i != std::string::npos; i = source_.find('{', i + 1)) {
      if (i + 1 < source_.size() &&
          (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#')) {
        return i;
      }
    }
    return std::string::npos;
  }

  // Data in front of a tag without what its sign or lstrip_blocks takes away.
  std::string_view StripBeforeTag(std::string_view data, char sign, bool lstrip) const {
    if (sign == '-') return StripSpace(data, false, true);
    if (sign == '+' || !lstrip) return data;
    const size_t newline = data.rfind('\n');
    const size_t line_start = newline == std::string_view::npos ? 0 : newline + 1;
    if ((line_start > 0 || line_starting_) && AllSpace(data.substr(line_start))) {
      return data.substr(0, line_start);
    }
    return data;
  }

  size_t SkipSpace(size_t at) const {
    const std::string_view rest = std::string_view(source_).substr(at);
    return at + (rest.size() - StripSpace(rest, true, false).size());
  }

  // `raw -%}` or `raw %}` behind the sign of a block.
  bool MatchRawBegin(size_t at, size_t* end) const {
    at = SkipSpace(at);
    if (source_.compare(at, 3, "raw") != 0) return false;
    at = SkipSpace(at + 3);
    if (source_.compare(at, 3, "-%}") == 0) {
      *end = SkipSpace(at + 3);
      return true;
    }
    if (source_.compare(at, 2, "%}") != 0) return false;
    *end = at + 2;
    return true;
  }

  // The end of a block or comment at `at` with what trim_blocks or the sign takes with it; npos where none.
  size_t MatchEnd(size_t at, std::string_view end, bool trim_newline) const {
    if (source_.compare(at, 1, "-") == 0 && source_.compare(at + 1, 2, end) == 0) return SkipSpace(at + 3);
    if (trim_newline && source_.compare(at, 1, "+") == 0 && source_.compare(at + 1, 2, end) == 0)
      return at + 3;
    if (source_.compare(at, 2, end) != 0) return std::string::npos;
    at += 2;
    return trim_newline && at < source_.size() && source_[at] == '\n' ? at + 1 : at;
  }

  void LexComment() {
    for (size_t i = position_; i < source_.size(); ++i) {
      const char c = source_[i];
      if (c != '#' && c != '-' && c != '+') continue;
      const size_t end = MatchEnd(i, "#}", true);
      if (end == std::string::npos) continue;
      MoveTo(end);
      return;
    }
    Fail("Missing end of comment tag");
  }

  void LexRaw() {
    for (size_t i = source_.find("{%", position_); i != std::string::npos; i = source_.find("{%", i + 1)) {
      size_t at = i + 2;
      char sign = 0;
      if (at < source_.size() && (source_[at] == '-' || source_[at] == '+')) sign = source_[at++];
      at = SkipSpace(at);
      if (source_.compare(at, 6, "endraw") != 0) continue;
      const size_t end = MatchEnd(SkipSpace(at + 6), "%}", true);
      if (end == std::string::npos) continue;
      AddData(StripBeforeTag(std::string_view(source_).substr(position_, i - position_), sign, true));
      MoveTo(end);
      return;
    }
    Fail("Missing end of raw directive");
  }

  // Expressions of a block or variable tag up to its end.
  void LexTag(bool block) {
    const std::string_view end_text = block ? "%}" : "}}";
    Add(block ? TokenKind::kBlockBegin : TokenKind::kVariableBegin);
    open_.clear();
    while (status_.ok()) {
      if (position_ >= source_.size()) return;
      SetLineHere();
      if (open_.empty()) {
        const size_t end = MatchEnd(position_, end_text, block);
        if (end != std::string::npos) {
          Add(block ? TokenKind::kBlockEnd : TokenKind::kVariableEnd);
          MoveTo(end);
          return;
        }
      }
      LexExpressionToken();
    }
  }

  void LexExpressionToken() {
    const size_t after_space = SkipSpace(position_);
    if (after_space != position_) {
      MoveTo(after_space);
      return;
    }
    const char c = source_[position_];
    if (IsAsciiDigit(c)) return LexNumber();
    if (c == '\'' || c == '"') return LexString(c);
    size_t next = position_;
    if (IsWordCharacter(NextCodePoint(source_, &next))) return LexName();
    LexOperator();
  }

  void LexName() {
    size_t end = position_;
    bool valid = true;
    while (end < source_.size()) {
      size_t next = end;
      const char32_t c = NextCodePoint(source_, &next);
      if (!IsWordCharacter(c) && !IsIdentifierPart(c)) break;
      valid = valid && (end == position_ ? IsIdentifierStart(c) : IsIdentifierPart(c));
      end = next;
    }
    if (!valid) return Fail("Invalid character in identifier");
    Add(TokenKind::kName, source_.substr(position_, end - position_));
    MoveTo(end);
  }

  // Digits with single underscores between them; the position behind them.
  template <typename IsDigitOfBase>
  size_t SkipDigits(size_t at, IsDigitOfBase is_digit) const {
    while (at < source_.size()) {
      if (is_digit(source_[at])) {
        ++at;
      } else if (source_[at] == '_' && at + 1 < source_.size() && is_digit(source_[at + 1])) {
        at += 2;
      } else {
        break;
      }
    }
    return at;
  }

  // The end of a float at `at`, or npos where there is none.
  size_t MatchFloat(size_t at) const {
    if (at > 0 && source_[at - 1] == '.') return std::string::npos;
    size_t end = SkipDigits(at, IsAsciiDigit);
    bool is_float = false;
    if (end + 1 < source_.size() && source_[end] == '.' && IsAsciiDigit(source_[end + 1])) {
      end = SkipDigits(end + 1, IsAsciiDigit);
      is_float = true;
    }
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      size_t exponent = end + 1;
      if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) ++exponent;
      if (exponent < source_.size() && IsAsciiDigit(source_[exponent])) {
        end = SkipDigits(exponent, IsAsciiDigit);
        is_float = true;
      }
    }
    return is_float ? end : std::string::npos;
  }

  void LexNumber() {
    const size_t float_end = MatchFloat(position_);
    if (float_end != std::string::npos) {
      std::string digits = source_.substr(position_, float_end - position_);
      digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
      Token& token = Add(TokenKind::kFloat);
      const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), token.real);
      if (parsed.ec == std::errc::result_out_of_range) {
        const size_t exponent = digits.find_first_of("eE");
        const bool tiny = exponent != std::string::npos && digits[exponent + 1] == '-';
        token.real = tiny ? 0 : std::numeric_limits<double>::infinity();
      }
      MoveTo(float_end);
      return;
    }
    int base = 10;
    size_t digits_start = position_;
    if (source_[position_] == '0' && position_ + 1 < source_.size()) {
      const char marker = static_cast<char>(source_[position_ + 1] | 0x20);
      const int marked = marker == 'x' ? 16 : marker == 'o' ? 8 : marker == 'b' ? 2 : 10;
      size_t first = position_ + 2;
      if (first < source_.size() && source_[first] == '_') ++first;
      if (marked != 10 && first < source_.size() && HexDigit(source_[first]) >= 0 &&
          HexDigit(source_[first]) < marked) {
        base = marked;
        digits_start = first;
      }
    }
    const bool zeros_only = base == 10 && source_[position_] == '0';
    const size_t end = SkipDigits(digits_start, [&](char c) {
      const int digit = HexDigit(c);
      return digit >= 0 && digit < (zeros_only ? 1 : base);
    });
    Int value = 0;
    for (size_t i = digits_start; i < end; ++i) {
      if (source_[i] == '_') continue;
      if (__builtin_mul_overflow(value, Int{base}, &value) ||
          __builtin_add_overflow(value, Int{HexDigit(source_[i])}, &value)) {
        return Fail("integer literal exceeds 128 bits");
      }
    }
    Add(TokenKind::kInteger).integer = value;
    MoveTo(end);
  }

  void LexString(char quote) {
    size_t end = position_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) return LexOperator();
    std::string value;
    if (!Unescape(std::string_view(source_).substr(position_ + 1, end - position_ - 1), &value)) return;
    Add(TokenKind::kString, std::move(value));
    MoveTo(end + 1);
  }

  // Python's escapes of a string literal.
  bool Unescape(std::string_view raw, std::string* value) {
    for (size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] != '\\') {
        *value += raw[i];
        continue;
      }
      const char escape = raw[++i];  // the lexer never ends a literal behind a backslash
      constexpr std::string_view kNames = "\\'\"abfnrtv";
      constexpr std::string_view kValues = "\\'\"\a\b\f\n\r\t\v";
      if (const size_t known = kNames.find(escape); known != std::string_view::npos) {
        *value += kValues[known];
      } else if (escape == '\n') {
        continue;
      } else if (escape == 'x' || escape == 'u' || escape == 'U') {
        const size_t digits = escape == 'x' ? 2 : escape == 'u' ? 4 : 8;
        if (!UnescapeHex(raw.substr(i + 1), escape, digits, value)) return false;
        i += digits;
      } else if (escape >= '0' && escape <= '7') {
        char32_t code_point = 0;
        size_t digits = 0;
        while (digits < 3 && i + digits < raw.size() && raw[i + digits] >= '0' && raw[i + digits] <= '7') {
          code_point = code_point * 8 + static_cast<char32_t>(raw[i + digits++] - '0');
        }
        AppendCodePoint(code_point, value);
        i += digits - 1;
      } else if (escape == 'N') {
        Fail("character names (\\N{...}) are not supported");
        return false;
      } else if (static_cast<unsigned char>(escape) >= 0x80) {
        // Jinja2 turns the character into an escape first, which the backslash then disarms.
        size_t next = i;
        const auto code_point = static_cast<uint32_t>(NextCodePoint(raw, &next));
        *value += code_point < 0x100     ? fmt::format("\\x{:02x}", code_point)
                  : code_point < 0x10000 ? fmt::format("\\u{:04x}", code_point)
                                         : fmt::format("\\U{:08x}", code_point);
        i = next - 1;
      } else {
        *value += '\\';
        *value += escape;
      }
    }
    return true;
  }

  bool UnescapeHex(std::string_view digits, char escape, size_t count, std::string* value) {
    char32_t code_point = 0;
    for (size_t i = 0; i < count; ++i) {
      const int digit = i < digits.size() ? HexDigit(digits[i]) : -1;
      if (digit < 0) {
        Fail(fmt::format("truncated \\{} escape in a string", escape));
        return false;
      }
      code_point = code_point * 16 + static_cast<char32_t>(digit);
    }
    if (code_point > 0x10ffff || (code_point >= 0xd800 && code_point < 0xe000)) {
      Fail(fmt::format("\\{} escape of {:#x}, which is no character", escape,
                       static_cast<uint32_t>(code_point)));
      return false;
    }
    AppendCodePoint(code_point, value);
    return true;
  }

  void LexOperator() {
    const std::string_view rest = std::string_view(source_).substr(position_);
    const auto found = std::find_if(kOperators.begin(), kOperators.end(),
                                    [&](std::string_view op) { return rest.substr(0, op.size()) == op; });
    if (found == kOperators.end()) {
      size_t next = position_;
      NextCodePoint(source_, &next);
      return Fail(fmt::format("unexpected char '{}'", source_.substr(position_, next - position_)));
    }
    const char c = (*found)[0];
    if (c == '{' || c == '(' || c == '[') {
      open_ += c == '{' ? '}' : c == '(' ? ')' : ']';
    } else if (c == '}' || c == ')' || c == ']') {
      if (open_.empty()) return Fail(fmt::format("unexpected '{}'", c));
      const char expected = open_.back();
      open_.pop_back();
      if (expected != c) return Fail(fmt::format("unexpected '{}', expected '{}'", c, expected));
    }
    Add(TokenKind::kOperator, std::string(*found));
    MoveTo(position_ + found->size());
  }

  void AddData(std::string_view data) {
    if (data.empty()) return;
    SetLineHere();
    Add(TokenKind::kData, std::string(data));
  }

  Token& Add(TokenKind kind, std::string text = {}) {
    Token& token = tokens_.emplace_back();
    token.kind = kind;
    token.line = line_;
    token.text = std::move(text);
    return token;
  }

  // Consumes up to `end`, which is behind the present position.
  void MoveTo(size_t end) {
    line_starting_ = end > 0 && source_[end - 1] == '\n';
    position_ = end;
  }

  void SetLineHere() {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<ptrdiff_t>(line_position_),
                                         source_.begin() + static_cast<ptrdiff_t>(position_), '\n'));
    line_position_ = position_;
  }

  void Fail(std::string_view reason) {
    SetLineHere();
    if (status_.ok()) status_ = InvalidModelError("line {}: {}", line_, reason);
  }

  const std::string source_;
  size_t position_ = 0;
  int line_ = 1;
  size_t line_position_ = 0;   // line_ is the line of this position
  bool line_starting_ = true;  // the last thing consumed ended a line
  std::string open_;           // closing brackets still expected, innermost last
  std::vector<Token> tokens_;
  Status status_;
};

}  // namespace

std::string Describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kData:
      return "template data / text";
    case TokenKind::kBlockBegin:
      return "begin of statement block";
    case TokenKind::kBlockEnd:
      return "end of statement block";
    case TokenKind::kVariableBegin:
      return "begin of print statement";
    case TokenKind::kVariableEnd:
      return "end of print statement";
    case TokenKind::kName:
    case TokenKind::kOperator:
      return token.text;
    case TokenKind::kString:
      return "string";
    case TokenKind::kInteger:
      return "integer";
    case TokenKind::kFloat:
      return "float";
    case TokenKind::kEnd:
      return "end of template";
  }
  return "token";
}

Result<std::vector<Token>> Tokenize(std::string_view source) { return Lexer(source).Run(); }

}  // namespace lamina::jinja
