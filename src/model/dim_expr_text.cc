// DimExpr as text: printing, and parsing of what exporters write as dim_param (Python and sympy notation).
#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <optional>
#include <utility>

#include "model/dim_expr.h"
#include "model/dim_expr_rep.h"

namespace lamina {
namespace {

constexpr size_t kMaxTextBytes = 4096;
constexpr int kMaxNesting = 64;

bool IsNameStart(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return std::isalpha(byte) != 0 || c == '_' || byte >= 0x80;
}
bool IsNameChar(char c) {
  return IsNameStart(c) || std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.';
}

// An expression with a constant denominator: sympy writes floor((n + 1)/2) as floor(n/2 + 1/2).
struct Fraction {
  DimExpr numerator;
  int64_t denominator = 1;
};

// Recursive descent; every function returns nothing where the text is not an expression.
//   sum     = product (('+' | '-') product)*
//   product = power (('*' | '/' | '//' | '%') power)*
//   power   = ['-'] primary ['**' integer]
//   primary = integer | name | name '(' sum (',' sum)* ')' | '(' sum ')' | "'" any "'"
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::optional<DimExpr> Parse() {
    std::optional<Fraction> value = ParseSum();
    SkipSpaces();
    if (!value || position_ != text_.size()) return std::nullopt;
    DimExpr expr = Floor(*value);
    if (!expr.known()) return std::nullopt;
    return expr;
  }

 private:
  void SkipSpaces() {
    while (position_ < text_.size() && text_[position_] == ' ') ++position_;
  }
  char Peek(size_t ahead = 0) const {
    return position_ + ahead < text_.size() ? text_[position_ + ahead] : '\0';
  }
  bool Consume(std::string_view token) {
    SkipSpaces();
    if (text_.substr(position_, token.size()) != token) return false;
    position_ += token.size();
    return true;
  }
  // Whether an operator at the position joins two names without spaces: part of a name, as in "batch-size".
  bool InsideName() const {
    return position_ > 0 && IsNameChar(text_[position_ - 1]) && IsNameStart(Peek(1));
  }

  static DimExpr Floor(const Fraction& value) {
    return DimExpr::FloorDiv(value.numerator, value.denominator);
  }
  static std::optional<Fraction> Whole(DimExpr expr) { return Fraction{std::move(expr), 1}; }

  static std::optional<Fraction> Add(const Fraction& a, const Fraction& b, int64_t sign) {
    int64_t denominator = 0;
    if (__builtin_mul_overflow(a.denominator, b.denominator, &denominator)) return std::nullopt;
    if (a.denominator == b.denominator) {
      return Fraction{a.numerator + DimExpr(sign) * b.numerator, a.denominator};
    }
    return Fraction{a.numerator * b.denominator + DimExpr(sign) * b.numerator * a.denominator, denominator};
  }

  std::optional<Fraction> ParseSum() {
    std::optional<Fraction> sum = ParseProduct();
    while (sum) {
      SkipSpaces();
      const char op = Peek();
      if (op != '+' && op != '-') break;
      if (op == '-' && InsideName()) return std::nullopt;
      ++position_;
      const std::optional<Fraction> operand = ParseProduct();
      if (!operand) return std::nullopt;
      sum = Add(*sum, *operand, op == '+' ? 1 : -1);
    }
    return sum;
  }

  std::optional<Fraction> ParseProduct() {
    std::optional<Fraction> product = ParsePower();
    while (product) {
      SkipSpaces();
      if (Peek() == '/' && InsideName()) return std::nullopt;
      if (Consume("//")) {
        const std::optional<Fraction> divisor = ParsePower();
        if (!divisor) return std::nullopt;
        product = Whole(FloorOfQuotient(*product, *divisor));
      } else if (Consume("/")) {
        const std::optional<Fraction> divisor = ParsePower();
        if (!divisor) return std::nullopt;
        product = Divide(*product, *divisor);
      } else if (Consume("*")) {
        const std::optional<Fraction> factor = ParsePower();
        int64_t denominator = 0;
        if (!factor || __builtin_mul_overflow(product->denominator, factor->denominator, &denominator)) {
          return std::nullopt;
        }
        product = Fraction{product->numerator * factor->numerator, denominator};
      } else if (Consume("%")) {
        const std::optional<Fraction> divisor = ParsePower();
        if (!divisor || product->denominator != 1 || divisor->denominator != 1) return std::nullopt;
        product = Whole(DimExpr::Mod(product->numerator, divisor->numerator));
      } else {
        break;
      }
    }
    return product;
  }

  // a / b. A quotient by an expression counts as exact, as exporters use it for dimensions.
  static std::optional<Fraction> Divide(const Fraction& a, const Fraction& b) {
    const std::optional<int64_t> divisor = b.numerator.constant();
    if (!divisor) return Whole(FloorOfQuotient(a, b));
    int64_t denominator = 0;
    if (*divisor <= 0 || __builtin_mul_overflow(a.denominator, *divisor, &denominator)) return std::nullopt;
    return Fraction{a.numerator * b.denominator, denominator};
  }
  static DimExpr FloorOfQuotient(const Fraction& a, const Fraction& b) {
    return DimExpr::FloorDiv(a.numerator * b.denominator, b.numerator * a.denominator);
  }

  std::optional<Fraction> ParsePower() {
    const bool negative = Consume("-");
    std::optional<Fraction> value = ParsePrimary();
    if (value && Consume("**")) {
      const std::optional<Fraction> exponent = ParsePrimary();
      if (!exponent || exponent->denominator != 1) return std::nullopt;
      value = RaiseToPower(*value, exponent->numerator);
    }
    if (value && negative) value->numerator = DimExpr(0) - value->numerator;
    return value;
  }
  static std::optional<Fraction> RaiseToPower(const Fraction& base, const DimExpr& exponent) {
    const std::optional<int64_t> power = exponent.constant();
    if (!power || *power < 0 || *power > kMaxPower || base.denominator != 1) return std::nullopt;
    DimExpr result = 1;
    for (int64_t i = 0; i < *power; ++i) result = result * base.numerator;
    return Whole(std::move(result));
  }

  std::optional<Fraction> ParsePrimary() {
    SkipSpaces();
    const char c = Peek();
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) return ParseInteger();
    if (c == '\'') return ParseQuoted();
    if (c == '(') {
      ++position_;
      return ParseNested(")");
    }
    if (!IsNameStart(c)) return std::nullopt;
    const size_t begin = position_;
    while (IsNameChar(Peek())) ++position_;
    const std::string_view name = text_.substr(begin, position_ - begin);
    if (Peek() == '(') return ParseCall(name);
    return Whole(DimExpr::Symbol(name));
  }

  std::optional<Fraction> ParseInteger() {
    int64_t value = 0;
    const char* begin = text_.data() + position_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc()) return std::nullopt;
    position_ += static_cast<size_t>(end - begin);
    if (IsNameChar(Peek())) return std::nullopt;  // "2d", "1.5"
    return Whole(value);
  }

  std::optional<Fraction> ParseQuoted() {
    std::string name;
    for (++position_; position_ < text_.size(); ++position_) {
      char c = text_[position_];
      if (c == '\'') {
        ++position_;
        return Whole(DimExpr::Symbol(name));
      }
      if (c == '\\' && ++position_ < text_.size()) c = text_[position_];
      name += c;
    }
    return std::nullopt;
  }

  // A sum up to the closing token, one level deeper.
  std::optional<Fraction> ParseNested(std::string_view close) {
    if (nesting_ == kMaxNesting) return std::nullopt;
    ++nesting_;
    std::optional<Fraction> value = ParseSum();
    --nesting_;
    if (!value || !Consume(close)) return std::nullopt;
    return value;
  }

  std::optional<Fraction> ParseCall(std::string_view function) {
    ++position_;
    std::vector<Fraction> args;
    bool more = true;
    while (more) {
      if (nesting_ == kMaxNesting) return std::nullopt;
      ++nesting_;
      const std::optional<Fraction> arg = ParseSum();
      --nesting_;
      if (!arg) return std::nullopt;
      args.push_back(*arg);
      more = Consume(",");
    }
    if (!Consume(")")) return std::nullopt;
    return Call(function, args);
  }

  static std::optional<Fraction> Call(std::string_view function, const std::vector<Fraction>& args) {
    if (args.size() == 1) {
      if (function == "floor" || function == "FloorToInt" || function == "TruncToInt") {
        return Whole(Floor(args[0]));
      }
      if (function == "ceiling" || function == "ceil" || function == "CeilToInt") {
        return Whole(DimExpr::CeilDiv(args[0].numerator, args[0].denominator));
      }
      if (function == "Identity") return args[0];
      return std::nullopt;
    }
    if (function == "IntTrueDiv" && args.size() == 2) return Divide(args[0], args[1]);
    for (const Fraction& arg : args) {
      if (arg.denominator != 1) return std::nullopt;
    }
    const DimExpr& a = args[0].numerator;
    const DimExpr& b = args[1].numerator;
    if (function == "Max" || function == "max" || function == "Min" || function == "min") {
      const bool is_max = function[1] == 'a';
      DimExpr result = a;
      for (size_t i = 1; i < args.size(); ++i) {
        result = is_max ? DimExpr::Max(result, args[i].numerator) : DimExpr::Min(result, args[i].numerator);
      }
      return Whole(std::move(result));
    }
    if (function == "ModularIndexing" && args.size() == 3) {
      return Whole(DimExpr::Mod(DimExpr::FloorDiv(a, b), args[2].numerator));
    }
    if (args.size() != 2) return std::nullopt;
    if (function == "FloorDiv" || function == "CleanDiv") return Whole(DimExpr::FloorDiv(a, b));
    if (function == "CeilDiv") return Whole(DimExpr::CeilDiv(a, b));
    if (function == "Mod" || function == "PythonMod") return Whole(DimExpr::Mod(a, b));
    if (function == "Pow" || function == "PowByNatural") return RaiseToPower(args[0], b);
    return std::nullopt;
  }

  std::string_view text_;
  size_t position_ = 0;
  int nesting_ = 0;
};

// A name that reads as one symbol also inside an expression.
bool IsPlainName(std::string_view name) {
  if (name.empty() || !IsNameStart(name[0])) return false;
  for (const char c : name) {
    if (!IsNameChar(c)) return false;
  }
  return true;
}

std::string Quote(std::string_view name) {
  std::string quoted = "'";
  for (const char c : name) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "'";
}

std::string AtomText(const Atom& atom);

// In parentheses where it is more than one symbol or non-negative integer.
std::string OperandText(const DimExpr& expr) {
  const std::string text = expr.ToString();
  const Atom* atom = DimExprAccess::SingleAtom(expr);
  const bool simple = atom != nullptr ? atom->kind != AtomKind::kFloorDiv && atom->kind != AtomKind::kMod
                                      : expr.is_constant() && *expr.constant() >= 0;
  if (atom != nullptr && atom->kind == AtomKind::kSymbol) return AtomText(*atom);
  return simple ? text : fmt::format("({})", text);
}

std::string AtomText(const Atom& atom) {
  switch (atom.kind) {
    case AtomKind::kSymbol:
      return IsPlainName(atom.name) ? atom.name : Quote(atom.name);
    case AtomKind::kFloorDiv:
      return OperandText(atom.args[0]) + "//" + OperandText(atom.args[1]);
    case AtomKind::kMod:
      return OperandText(atom.args[0]) + " % " + OperandText(atom.args[1]);
    default: {
      std::string text = atom.kind == AtomKind::kMin ? "Min(" : "Max(";
      for (size_t i = 0; i < atom.args.size(); ++i) {
        if (i > 0) text += ", ";
        const Atom* symbol = DimExprAccess::SingleAtom(atom.args[i]);
        text += symbol != nullptr ? AtomText(*symbol) : atom.args[i].ToString();
      }
      return text + ")";
    }
  }
}

// A term without its sign, as it stands after a plus or minus. A minus sign that comes first binds tighter
// than a division.
std::string TermText(const Term& term) {
  std::string text;
  const std::string magnitude = std::to_string(term.coefficient).substr(term.coefficient < 0 ? 1 : 0);
  if (magnitude != "1" || term.monomial.empty()) text = magnitude;
  const bool alone = text.empty() && term.monomial.size() == 1 && term.monomial[0].power == 1;
  for (const Factor& factor : term.monomial) {
    if (!text.empty()) text += "*";
    const Atom& atom = *factor.atom;
    const bool compound = atom.kind == AtomKind::kFloorDiv || atom.kind == AtomKind::kMod;
    text +=
        compound && (!alone || term.coefficient < 0) ? fmt::format("({})", AtomText(atom)) : AtomText(atom);
    if (factor.power != 1) text += "**" + std::to_string(factor.power);
  }
  return text;
}

// The text of one symbol alone: its name, unless that reads as something else.
std::string SymbolText(const std::string& name) {
  if (IsPlainName(name) || DimExpr::FromDimParam(name).symbol() == name) return name;
  return Quote(name);
}

}  // namespace

DimExpr DimExpr::FromDimParam(std::string_view text) {
  if (text.size() <= kMaxTextBytes) {
    std::optional<DimExpr> expr = Parser(text).Parse();
    // "-1" is a way to say unknown, not a dimension.
    if (expr && expr->constant().value_or(0) >= 0) return *std::move(expr);
  }
  return Symbol(text);
}

std::string DimExpr::ToString() const {
  if (is_constant()) return std::to_string(value_);
  if (!known()) return "?";
  if (const Atom* atom = DimExprAccess::SingleAtom(*this);
      atom != nullptr && atom->kind == AtomKind::kSymbol) {
    return SymbolText(atom->name);
  }
  std::string text;
  for (const Term& term : rep_->terms) {
    const bool negative = term.coefficient < 0;
    if (text.empty()) {
      text = negative ? "-" : "";
    } else {
      text += negative ? " - " : " + ";
    }
    text += TermText(term);
  }
  return text;
}

}  // namespace lamina
