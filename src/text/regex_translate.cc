#include "text/regex_translate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/unicode_tables.h"
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

std::string AdditionItems(std::string_view name) {
  std::string items;
  for (const RegexAddition& addition : RegexAdditions()) {
    if (addition.name != name) continue;
    for (const CodeRange& range : addition.ranges) {
      items += range.first == range.last
                   ? fmt::format("\\x{{{:X}}}", static_cast<uint32_t>(range.first))
                   : fmt::format("\\x{{{:X}}}-\\x{{{:X}}}", static_cast<uint32_t>(range.first),
                                 static_cast<uint32_t>(range.last));
    }
  }
  return items;
}

std::string PropertyItems(std::string_view name) {
  return fmt::format("\\p{{{}}}", name) + AdditionItems(name);
}
std::string WordItems() { return R"(\p{L}\p{M}\p{Nd}\p{Pc})" + AdditionItems("w"); }
std::string DigitItems() { return PropertyItems("Nd"); }
std::string PunctItems() { return PropertyItems("P") + PropertyItems("S"); }

// Items for a class by its POSIX name; nothing where there is no such class.
std::optional<std::string> NamedClassItems(std::string_view name) {
  if (name == "alpha" || name == "alphabetic") return R"(\p{Alphabetic})" + AdditionItems("L");
  if (name == "alnum") return R"(\p{Alphabetic})" + AdditionItems("L") + DigitItems();
  if (name == "ascii") return R"(\x00-\x7F)";
  if (name == "blank") return R"(\t\p{Zs})";
  if (name == "cntrl") return R"(\p{Cc}\p{Cf}\p{Cn}\p{Co})";
  if (name == "digit") return DigitItems();
  if (name == "graph") return R"(\p{L}\p{M}\p{N}\p{P}\p{S}\p{Cf}\p{Co})" + AdditionItems("L");
  if (name == "lower") return R"(\p{Lowercase})" + AdditionItems("Ll");
  if (name == "print") return R"(\p{L}\p{M}\p{N}\p{P}\p{S}\p{Zs}\p{Cf}\p{Co})" + AdditionItems("L");
  if (name == "punct") return PunctItems();
  if (name == "space") return std::string(kSpaceItems);
  if (name == "upper") return R"(\p{Uppercase})" + AdditionItems("Lu");
  if (name == "word") return WordItems();
  if (name == "xdigit") return "0-9A-Fa-f";
  return std::nullopt;
}

// PCRE2 knows general categories by their short names only.
std::string ShortCategoryName(const std::string& folded) {
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {{"letter", "L"},
                                                                             {"uppercaseletter", "Lu"},
                                                                             {"lowercaseletter", "Ll"},
                                                                             {"titlecaseletter", "Lt"},
                                                                             {"modifierletter", "Lm"},
                                                                             {"otherletter", "Lo"},
                                                                             {"mark", "M"},
                                                                             {"nonspacingmark", "Mn"},
                                                                             {"spacingmark", "Mc"},
                                                                             {"enclosingmark", "Me"},
                                                                             {"number", "N"},
                                                                             {"decimalnumber", "Nd"},
                                                                             {"letternumber", "Nl"},
                                                                             {"othernumber", "No"},
                                                                             {"punctuation", "P"},
                                                                             {"connectorpunctuation", "Pc"},
                                                                             {"dashpunctuation", "Pd"},
                                                                             {"openpunctuation", "Ps"},
                                                                             {"closepunctuation", "Pe"},
                                                                             {"initialpunctuation", "Pi"},
                                                                             {"finalpunctuation", "Pf"},
                                                                             {"otherpunctuation", "Po"},
                                                                             {"symbol", "S"},
                                                                             {"mathsymbol", "Sm"},
                                                                             {"currencysymbol", "Sc"},
                                                                             {"modifiersymbol", "Sk"},
                                                                             {"othersymbol", "So"},
                                                                             {"separator", "Z"},
                                                                             {"spaceseparator", "Zs"},
                                                                             {"lineseparator", "Zl"},
                                                                             {"paragraphseparator", "Zp"},
                                                                             {"other", "C"},
                                                                             {"control", "Cc"},
                                                                             {"format", "Cf"},
                                                                             {"unassigned", "Cn"},
                                                                             {"privateuse", "Co"},
                                                                             {"surrogate", "Cs"},
                                                                             {"any", "Any"}};
  for (const auto& [name, short_name] : kNames) {
    if (name == folded) return std::string(short_name);
  }
  if (folded.size() <= 2 && !folded.empty()) {
    std::string name = folded;
    name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
    return name;
  }
  return {};
}

bool IsBinaryProperty(std::string_view folded) {
  return folded.starts_with("emoji") || folded == "extendedpictographic" || folded == "lowercase" ||
         folded == "uppercase" || folded == "ideographic" || folded == "cased" || folded == "caseignorable" ||
         folded == "idstart" || folded == "idcontinue" || folded == "xidstart" || folded == "xidcontinue" ||
         folded == "math" || folded == "dash" || folded == "diacritic" || folded == "extender" ||
         folded == "unifiedideograph" || folded == "whitespace" || folded == "hexdigit";
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  Result<std::string> Run() {
    while (pos_ < in_.size()) LAMINA_RETURN_IF_ERROR(Step());
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
        ++pos_;
        if (!group_begins_.empty()) {
          atom_begin_ = group_begins_.back();
          group_begins_.pop_back();
        }
        out_ += ')';
        return {};
      case '*':
      case '+':
      case '?':
        ++pos_;
        out_ += c;
        // ?, + as a suffix of a quantifier mean the same in both.
        if (Peek() == '?' || Peek() == '+') out_ += in_[pos_++];
        return {};
      case '{':
        return Interval();
      default: {
        const uint32_t length = Utf8Length(c);
        Atom(in_.substr(pos_, length));
        pos_ += length;
        return {};
      }
    }
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
    out_ += fmt::format("{{{}{}}}", body[0] == ',' ? "0" : "", body);
    if (Peek() == '+') {
      ++pos_;
      out_.insert(atom_begin_, "(?:");
      out_ += ")+";
    } else if (Peek() == '?') {
      ++pos_;
      out_ += '?';
    }
    return {};
  }

  Status OpenGroup() {
    group_begins_.push_back(out_.size());
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
    while (std::isalpha(static_cast<unsigned char>(Peek())) != 0 || Peek() == '-') {
      const char letter = in_[pos_++];
      if (letter == '-' || letter == 'i' || letter == 'x') {
        out_ += letter;
      } else if (letter == 'm') {
        out_ += 's';
      } else {
        return UnsupportedError("regular expression '{}': option '(?{}'", in_, letter);
      }
    }
    if (Peek() == ')') {  // (?i) holds to the end of the enclosing group
      out_ += ')';
      ++pos_;
      group_begins_.pop_back();
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
    LAMINA_ASSIGN_OR_RETURN(const std::optional<CharSet> set, EscapedSet());
    if (set) {
      Atom(fmt::format("[{}{}]", set->negated ? "^" : "", set->items));
      return {};
    }
    const char c = Peek(1);
    if (c == 'b' || c == 'B') {
      pos_ += 2;
      const std::string word = WordItems();
      const std::string boundary = fmt::format("(?:(?<=[{0}])(?![{0}])|(?<![{0}])(?=[{0}]))", word);
      Atom(c == 'b' ? boundary : fmt::format("(?!{})", boundary));
      return {};
    }
    if (c == 'x' || c == 'u' || c == 'v') {
      LAMINA_ASSIGN_OR_RETURN(const char32_t code, EscapedChar());
      Atom(fmt::format("\\x{{{:X}}}", static_cast<uint32_t>(code)));
      return {};
    }
    const uint32_t length = Utf8Length(c);
    // An escaped letter without meaning in Ruby stands for itself, whatever PCRE2 would make of it.
    constexpr std::string_view kSharedEscapes = "AZzGkgRXKnrtfae";
    const bool is_letter = std::isalpha(static_cast<unsigned char>(c)) != 0;
    const bool ascii = length == 1 && (!is_letter || kSharedEscapes.find(c) != std::string_view::npos);
    Atom(std::string(ascii ? "\\" : "") + std::string(in_.substr(pos_ + 1, length)));
    pos_ += 1 + length;
    return {};
  }

  // The set at a backslash, consumed; nothing (and nothing consumed) where it is no set.
  Result<std::optional<CharSet>> EscapedSet() {
    const char c = Peek(1);
    std::optional<CharSet> set;
    switch (c) {
      case 's':
      case 'S':
        set = CharSet{std::string(kSpaceItems), c == 'S'};
        break;
      case 'w':
      case 'W':
        set = CharSet{WordItems(), c == 'W'};
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
        return Property();
      default:
        return set;
    }
    pos_ += 2;
    return set;
  }

  Result<std::optional<CharSet>> Property() {
    const bool capital = Peek(1) == 'P';
    const size_t close = in_.find('}', pos_);
    if (Peek(2) != '{' || close == std::string_view::npos) {
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
    CharSet set;
    set.negated = capital != caret;
    if (std::optional<std::string> items = NamedClassItems(folded)) {
      set.items = *std::move(items);
    } else if (const std::string category = ShortCategoryName(folded); !category.empty()) {
      set.items = PropertyItems(category);
    } else if (IsBinaryProperty(folded)) {
      set.items = fmt::format("\\p{{{}}}", name);
    } else {
      // A script: its own characters, without those that it shares with others.
      std::string script(name);
      if (!script.empty()) script[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(script[0])));
      set.items = fmt::format("\\p{{sc:{}}}", name) + AdditionItems(script);
    }
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

  Status ClassItem(int depth, std::string& items, std::vector<std::string>& others) {
    if (in_.substr(pos_).starts_with("[:")) {
      const size_t close = in_.find(":]", pos_ + 2);
      if (close != std::string_view::npos) {
        std::string_view name = in_.substr(pos_ + 2, close - pos_ - 2);
        const bool caret = name.starts_with('^');
        if (caret) name.remove_prefix(1);
        if (std::optional<std::string> set = NamedClassItems(name)) {
          pos_ = close + 2;
          if (caret) {
            others.push_back(fmt::format("[^{}]", *set));
          } else {
            items += *set;
          }
          return {};
        }
      }
    }
    if (Peek() == '[') {
      ++pos_;
      LAMINA_ASSIGN_OR_RETURN(std::string nested, Class(depth + 1));
      others.push_back(std::move(nested));
      return {};
    }
    if (Peek() == '\\') {
      LAMINA_ASSIGN_OR_RETURN(const std::optional<CharSet> set, EscapedSet());
      if (set) {
        if (set->negated) {
          others.push_back(fmt::format("[^{}]", set->items));
        } else {
          items += set->items;
        }
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
  std::vector<size_t> group_begins_;  // in out_: open groups
};

}  // namespace

Result<std::string> TranslateRegex(std::string_view pattern) { return Translator(pattern).Run(); }

}  // namespace lamina::text
