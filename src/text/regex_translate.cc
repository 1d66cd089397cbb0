#include "text/regex_translate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/regex_properties.h"
#include "text/utf8.h"

namespace lamina::text {
namespace {

constexpr std::string_view kSpaceItems =
    R"(\x09-\x0D\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr std::string_view kAnyChar = "(?s:.)";
constexpr int kMaxNesting = 64;  // of character classes

// What one escape or POSIX bracket stands for: items that can stand inside [...], taken as they are or
// negated.
struct CharSet {
  std::string items;
  bool negated = false;
};

CharSet ContentOf(const RegexProperty& property) {
  CharSet set{std::string(property.items), property.negated};
  if (property.items.empty() && property.num_ranges == 0) {  // surrogates, which are in no text
    return {R"(\x{0}-\x{10FFFF})", !property.negated};
  }
  for (const CodeRange& range : property.ranges()) {
    set.items += range.first == range.last
                     ? fmt::format("\\x{{{:X}}}", static_cast<uint32_t>(range.first))
                     : fmt::format("\\x{{{:X}}}-\\x{{{:X}}}", static_cast<uint32_t>(range.first),
                                   static_cast<uint32_t>(range.last));
  }
  return set;
}

// Superscript digits and fractions of Latin-1 are of words, except in brackets.
CharSet WordSet(bool in_brackets) { return ContentOf(*FindRegexProperty(in_brackets ? "[:word:]" : "word")); }
std::string DigitItems() { return ContentOf(*FindRegexProperty("digit")).items; }

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  Result<std::string> Run() {
    while (pos_ < in_.size()) LAMINA_RETURN_IF_ERROR(Step());
    out_.append(isolated_options_, ')');
    return std::move(out_);
  }

 private:
  bool AtEnd() const { return pos_ >= in_.size(); }
  char Peek(size_t ahead = 0) const { return pos_ + ahead < in_.size() ? in_[pos_ + ahead] : '\0'; }
  bool Consume(std::string_view expected) {
    if (in_.substr(pos_).substr(0, expected.size()) != expected) return false;
    pos_ += expected.size();
    return true;
  }

  void Atom(std::string_view text) {
    atom_begin_ = out_.size();
    out_ += text;
  }

  Status Step() {
    const char c = Peek();
    switch (c) {
      case '\\':
        return Escape();
      case '[': {
        ++pos_;
        LAMINA_ASSIGN_OR_RETURN(const std::string expression, Class(0));
        Atom(expression);
        return {};
      }
      case '(':
        return OpenGroup();
      case ')':
        CloseGroup();
        return {};
      case '*':
      case '+':
      case '?':
        ++pos_;
        BeginQuantifier();
        out_ += c;
        // ?, + as a suffix of a quantifier mean the same in both.
        if (Peek() == '?' || Peek() == '+') out_ += in_[pos_++];
        quantifier_end_ = out_.size();
        return {};
      case '{':
        return Interval();
      default: {
        if (ignore_case_) return FoldedLiteral();
        const uint32_t length = Utf8Length(c);
        Atom(in_.substr(pos_, length));
        pos_ += length;
        return {};
      }
    }
  }

  // Where case does not count, the reference takes some sequences for one character, which PCRE2 does not:
  // "ss" for sharp s, "st" and "fi" for ligatures. Sharp s is rewritten, the others are refused.
  Status FoldedLiteral() {
    static constexpr std::string_view kSequences[] = {"ss", "ff", "fi", "fl", "st"};
    std::string folded(in_.substr(pos_, 2));
    for (char& c : folded) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (std::find(std::begin(kSequences), std::end(kSequences), folded) != std::end(kSequences)) {
      return UnsupportedError("regular expression '{}': '{}' without regard to case", in_,
                              in_.substr(pos_, 2));
    }
    const std::string_view literal = in_.substr(pos_, Utf8Length(in_[pos_]));
    Atom(literal == "\u00DF" || literal == "\u1E9E" ? "(?:ss|\u00DF|\u1E9E)" : literal);
    pos_ += literal.size();
    return {};
  }

  // Before a quantifier is written: what it repeats may be a repetition itself, which PCRE2 has only in
  // groups.
  void BeginQuantifier() {
    if (quantifier_end_ == out_.size()) Enclose("(?:", ")");
  }
  // Around the last atom and its quantifiers.
  void Enclose(std::string_view before, std::string_view after) {
    out_.insert(atom_begin_, before);
    out_ += after;
  }

  // "{n,m}" with what follows it. A brace that is no interval is literal.
  Status Interval() {
    size_t end = pos_ + 1;
    while (end < in_.size() && (std::isdigit(static_cast<unsigned char>(in_[end])) != 0 || in_[end] == ','))
      ++end;
    const std::string_view body = in_.substr(pos_ + 1, end - pos_ - 1);
    const bool interval = end < in_.size() && in_[end] == '}' && !body.empty() && body != "," &&
                          std::count(body.begin(), body.end(), ',') <= 1;
    if (!interval) {
      Atom("\\{");
      ++pos_;
      return {};
    }
    pos_ = end + 1;
    BeginQuantifier();
    out_ += fmt::format("{{{}{}}}", body[0] == ',' ? "0" : "", body);
    if (Peek() == '+') {
      ++pos_;
      Enclose("(?:", ")+");
    } else if (Peek() == '?' && body.find(',') == std::string_view::npos) {  // {n}? is n or none
      ++pos_;
      Enclose("(?:", ")?");
    } else if (Peek() == '?') {
      ++pos_;
      out_ += '?';
    }
    quantifier_end_ = out_.size();
    return {};
  }

  void CloseGroup() {
    ++pos_;
    if (!groups_.empty()) {
      out_.append(isolated_options_, ')');
      atom_begin_ = groups_.back().begin;
      ignore_case_ = groups_.back().ignore_case;
      isolated_options_ = groups_.back().isolated_options;
      groups_.pop_back();
    }
    out_ += ')';
  }

  Status OpenGroup() {
    groups_.push_back({out_.size(), ignore_case_, std::exchange(isolated_options_, 0)});
    out_ += '(';
    ++pos_;
    if (Peek() != '?') return {};
    out_ += '?';
    ++pos_;
    if (Peek() == '#') {
      while (!AtEnd() && Peek() != ')') out_ += in_[pos_++];
      return {};
    }
    // Option letters: m lets the dot match line ends, which PCRE2 calls s.
    bool on = true;
    while (std::isalpha(static_cast<unsigned char>(Peek())) != 0 || Peek() == '-') {
      const char letter = in_[pos_++];
      if (letter == '-') on = false;
      if (letter == 'i') ignore_case_ = on;
      if (letter == '-' || letter == 'i' || letter == 'x') {
        out_ += letter;
      } else if (letter == 'm') {
        out_ += 's';
      } else {
        return UnsupportedError("regular expression '{}': option '(?{}'", in_, letter);
      }
    }
    if (Peek() ==
        ')') {  // (?i) is a group up to the end of the enclosing one, with the alternatives that follow
      out_ += ':';
      ++pos_;
      isolated_options_ = groups_.back().isolated_options + 1;
      groups_.pop_back();
      return {};
    }
    if (Peek() == '~') return UnsupportedError("regular expression '{}': absence operator", in_);
    // (?: (?= (?! (?> (?<= (?<! (?<name>
    if (Peek() == '<' && Peek(1) != '=' && Peek(1) != '!') {
      while (!AtEnd() && Peek() != '>') out_ += in_[pos_++];
    }
    if (!AtEnd()) out_ += in_[pos_++];
    if (out_.back() == '<' && !AtEnd()) out_ += in_[pos_++];
    return {};
  }

  Status Escape() {
    if (pos_ + 1 >= in_.size()) return InvalidModelError("regular expression '{}' ends in a backslash", in_);
    LAMINA_ASSIGN_OR_RETURN(const std::optional<CharSet> set, EscapedSet(false));
    if (set) {
      // Outside of brackets a set is what it is, whether or not case counts.
      const std::string expression = fmt::format("[{}{}]", set->negated ? "^" : "", set->items);
      Atom(ignore_case_ ? fmt::format("(?-i:{})", expression) : expression);
      return {};
    }
    const char c = Peek(1);
    if (c == 'b' || c == 'B') {
      pos_ += 2;
      const std::string word = WordSet(false).items;
      const std::string boundary = fmt::format("(?-i:(?<=[{0}])(?![{0}])|(?<![{0}])(?=[{0}]))", word);
      Atom(c == 'b' ? boundary : fmt::format("(?!{})", boundary));
      return {};
    }
    if (c == 'x' || c == 'u' || c == 'v') {
      LAMINA_ASSIGN_OR_RETURN(const char32_t code, EscapedChar());
      Atom(fmt::format("\\x{{{:X}}}", static_cast<uint32_t>(code)));
      return {};
    }
    if (c == 'N' || c == 'O') {  // all but the line end, all
      pos_ += 2;
      Atom(c == 'N' ? "[^\\n]" : kAnyChar);
      return {};
    }
    // Clusters of characters, whose rules change with Unicode; control and octal characters.
    if (std::string_view("XyYcCMo").find(c) != std::string_view::npos)
      return UnsupportedError("regular expression '{}': '\\{}'", in_, c);
    const uint32_t length = Utf8Length(c);
    // An escaped letter without meaning in Ruby stands for itself, whatever PCRE2 would make of it.
    constexpr std::string_view kSharedEscapes = "AZzGkgRKnrtfae";
    const bool is_letter = std::isalpha(static_cast<unsigned char>(c)) != 0;
    const bool ascii = length == 1 && (!is_letter || kSharedEscapes.find(c) != std::string_view::npos);
    Atom(std::string(ascii ? "\\" : "") + std::string(in_.substr(pos_ + 1, length)));
    pos_ += 1 + length;
    return {};
  }

  // The set at a backslash, consumed; nothing (and nothing consumed) where it is no set.
  Result<std::optional<CharSet>> EscapedSet(bool in_brackets) {
    const char c = Peek(1);
    std::optional<CharSet> set;
    switch (c) {
      case 's':
      case 'S':
        set = CharSet{std::string(kSpaceItems), c == 'S'};
        break;
      case 'w':
      case 'W':
        set = WordSet(in_brackets);
        set->negated = c == 'W';
        break;
      case 'd':
      case 'D':
        set = CharSet{DigitItems(), c == 'D'};
        break;
      case 'h':
      case 'H':
        set = CharSet{"0-9A-Fa-f", c == 'H'};
        break;
      case 'p':
      case 'P':
        if (Peek(2) != '{') return set;
        return Property(in_brackets);
      default:
        return set;
    }
    pos_ += 2;
    return set;
  }

  Result<std::optional<CharSet>> Property(bool in_brackets) {
    const bool capital = Peek(1) == 'P';
    const size_t close = in_.find('}', pos_);
    if (close == std::string_view::npos) {
      return InvalidModelError("regular expression '{}': \\p without {{name}}", in_);
    }
    std::string_view name = in_.substr(pos_ + 3, close - pos_ - 3);
    pos_ = close + 1;
    const bool caret = name.starts_with('^');
    if (caret) name.remove_prefix(1);
    std::string folded;
    for (char c : name) {
      if (c == ' ' || c == '_' || c == '-') continue;
      folded += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    const RegexProperty* property = FindRegexProperty(folded);
    if (property == nullptr || folded.starts_with('[')) {
      return InvalidModelError("regular expression '{}': no property is called '{}'", in_, name);
    }
    CharSet set = folded == "word" ? WordSet(in_brackets) : ContentOf(*property);
    set.negated = set.negated != (capital != caret);
    return std::optional<CharSet>(std::move(set));
  }

  // One character written as an escape, consumed.
  Result<char32_t> EscapedChar() {
    ++pos_;  // backslash
    const char c = Peek();
    const uint32_t length = Utf8Length(c);
    if (pos_ + length > in_.size())
      return InvalidModelError("regular expression '{}' ends in a backslash", in_);
    const char32_t literal = DecodeUtf8(in_.substr(pos_)).code;
    pos_ += length;
    switch (c) {
      case 't':
        return U'\t';
      case 'n':
        return U'\n';
      case 'r':
        return U'\r';
      case 'f':
        return U'\f';
      case 'v':
        return U'\v';
      case 'a':
        return U'\a';
      case 'e':
        return U'\x1B';
      case 'b':
        return U'\b';
      case '0':
        return U'\0';
      case 'x':
      case 'u': {
        const bool braced = Consume("{");
        const size_t limit = braced ? 8 : c == 'x' ? 2 : 4;
        uint64_t code = 0;
        size_t digits = 0;
        while (digits < limit && std::isxdigit(static_cast<unsigned char>(Peek())) != 0) {
          const char digit = in_[pos_++];
          code = code * 16 + static_cast<uint64_t>(digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10);
          ++digits;
        }
        if (digits == 0 || (braced && !Consume("}")) || code > 0x10FFFF ||
            (code >= 0xD800 && code < 0xE000)) {
          return InvalidModelError("regular expression '{}': bad character escape", in_);
        }
        return static_cast<char32_t>(code);
      }
      default:
        return literal;
    }
  }

  // A character class after its '[': an expression that takes one character. Parts joined by && are
  // intersected.
  Result<std::string> Class(int depth) {
    if (depth > kMaxNesting)
      return InvalidModelError("regular expression '{}': classes nested too deep", in_);
    const bool negated = Consume("^");
    std::vector<std::string> operands;  // of &&
    std::string items;                  // of the current operand
    std::vector<std::string> others;    // what cannot be written as items
    bool first = true;
    while (true) {
      if (AtEnd()) return InvalidModelError("regular expression '{}': missing ']'", in_);
      if (Peek() == ']' && !first) {
        ++pos_;
        break;
      }
      first = false;
      if (Consume("&&")) {
        operands.push_back(Union(items, others));
        items.clear();
        others.clear();
        continue;
      }
      LAMINA_RETURN_IF_ERROR(ClassItem(depth, items, others));
    }
    if (operands.empty() && others.empty()) {
      if (items.empty()) return std::string(negated ? kAnyChar : "(?!)");
      return fmt::format("[{}{}]", negated ? "^" : "", items);
    }
    std::string expression = Union(items, others);
    for (const std::string& operand : operands) expression = fmt::format("(?={}){}", operand, expression);
    if (negated) return fmt::format("(?:(?!{}){})", expression, kAnyChar);
    return fmt::format("(?:{})", expression);
  }

  static std::string Union(const std::string& items, const std::vector<std::string>& others) {
    std::string expression = items.empty() ? "(?!)" : fmt::format("[{}]", items);
    for (const std::string& other : others) expression += "|" + other;
    return others.empty() ? expression : fmt::format("(?:{})", expression);
  }

  static void AddSet(const CharSet& set, bool caret, std::string& items, std::vector<std::string>& others) {
    if (set.negated != caret) {
      others.push_back(fmt::format("[^{}]", set.items));
    } else {
      items += set.items;
    }
  }

  Status ClassItem(int depth, std::string& items, std::vector<std::string>& others) {
    if (in_.substr(pos_).starts_with("[:")) {
      const size_t close = in_.find(":]", pos_ + 2);
      if (close != std::string_view::npos) {
        std::string_view name = in_.substr(pos_ + 2, close - pos_ - 2);
        const bool caret = name.starts_with('^');
        if (caret) name.remove_prefix(1);
        const RegexProperty* property = FindRegexProperty(fmt::format("[:{}:]", name));
        if (property == nullptr) {
          return InvalidModelError("regular expression '{}': no bracket is called '[:{}:]'", in_, name);
        }
        pos_ = close + 2;
        AddSet(ContentOf(*property), caret, items, others);
        return {};
      }
    }
    if (Peek() == '[') {
      ++pos_;
      LAMINA_ASSIGN_OR_RETURN(std::string nested, Class(depth + 1));
      others.push_back(std::move(nested));
      return {};
    }
    if (Peek() == '\\') {
      LAMINA_ASSIGN_OR_RETURN(const std::optional<CharSet> set, EscapedSet(true));
      if (set) {
        AddSet(*set, false, items, others);
        return {};
      }
    }
    LAMINA_ASSIGN_OR_RETURN(const char32_t low, ClassChar());
    AppendItem(low, items);
    if (Peek() == '-' && Peek(1) != ']' && pos_ + 1 < in_.size()) {
      const size_t dash = pos_;
      ++pos_;
      const bool set_follows =
          Peek() == '[' ||
          (Peek() == '\\' && std::string_view("swdhpSWDHP").find(Peek(1)) != std::string_view::npos);
      if (set_follows) {  // [a-\d]: the dash is literal
        pos_ = dash + 1;
        items += "\\-";
        return {};
      }
      LAMINA_ASSIGN_OR_RETURN(const char32_t high, ClassChar());
      if (high < low) return InvalidModelError("regular expression '{}': empty range in a class", in_);
      items += '-';
      AppendItem(high, items);
    }
    return {};
  }

  Result<char32_t> ClassChar() {
    if (AtEnd()) return InvalidModelError("regular expression '{}': missing ']'", in_);
    if (Peek() == '\\') return EscapedChar();
    const Utf8Char c = DecodeUtf8(in_.substr(pos_));
    pos_ += c.length_bytes;
    return c.code;
  }

  static void AppendItem(char32_t code, std::string& items) {
    if (code < 0x80 && std::isalnum(static_cast<int>(code)) != 0) {
      items += static_cast<char>(code);
    } else {
      items += fmt::format("\\x{{{:X}}}", static_cast<uint32_t>(code));
    }
  }

  std::string_view in_;
  size_t pos_ = 0;
  std::string out_;
  size_t atom_begin_ = 0;             // in out_: the last atom, which a quantifier repeats
  size_t quantifier_end_ = SIZE_MAX;  // in out_: behind the last quantifier
  bool ignore_case_ = false;          // (?i) holds
  size_t isolated_options_ = 0;       // groups that options have begun and that end with the innermost group
  struct Group {
    size_t begin = 0;          // in out_
    bool ignore_case = false;  // these two outside of it
    size_t isolated_options = 0;
  };
  std::vector<Group> groups_;  // open
};

}  // namespace

Result<std::string> TranslateRegex(std::string_view pattern) { return Translator(pattern).Run(); }

}  // namespace lamina::text
