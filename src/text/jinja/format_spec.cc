// The formatting mini-language of str.format, and `%` formatting.
#include <algorithm>
#include <cmath>
#include <optional>

#include "text/jinja/attributes.h"
#include "text/jinja/format.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace lamina::jinja {

namespace {

// Digits behind the point beyond which no double has any but zeros, with room to spare.
constexpr Int kMaxPrecision = 5000;

struct Spec {
  std::string fill = " ";
  char align = 0;  // < > ^ =
  char sign = '-';
  bool alternate = false;
  bool zero = false;
  Int width = 0;
  char grouping = 0;
  Int precision = -1;
  char type = 0;
};

// Digits at `*position`; -1 where there are none, capped far above all limits.
Int ParseNumber(std::string_view text, size_t* position) {
  Int value = -1;
  constexpr Int kCap = Int{1} << 62;
  while (*position < text.size() && text[*position] >= '0' && text[*position] <= '9') {
    value = std::min(kCap, std::max(value, Int{0}) * 10 + (text[*position] - '0'));
    ++*position;
  }
  return value;
}

// [[fill]align][sign][#][0][width][grouping][.precision][type]
std::optional<Spec> ParseSpec(std::string_view text) {
  Spec spec;
  size_t at = 0;
  const auto is_align = [&](size_t i) {
    return i < text.size() && std::string_view("<>=^").find(text[i]) != std::string_view::npos;
  };
  size_t after_first = 0;
  if (!text.empty()) NextCodePoint(text, &after_first);
  if (!text.empty() && is_align(after_first)) {
    spec.fill = std::string(text.substr(0, after_first));
    spec.align = text[after_first];
    at = after_first + 1;
  } else if (is_align(0)) {
    spec.align = text[0];
    at = 1;
  }
  const auto take = [&](std::string_view choices) -> char {
    return at < text.size() && choices.find(text[at]) != std::string_view::npos ? text[at++] : '\0';
  };
  if (const char sign = take("+- ")) spec.sign = sign;
  spec.alternate = take("#") != 0;
  if (take("0") != 0) {
    spec.zero = true;
    if (spec.align == 0) {
      spec.fill = "0";
      spec.align = '=';
    }
  }
  spec.width = std::max(Int{0}, ParseNumber(text, &at));
  spec.grouping = take(",_");
  if (take(".") != 0) {
    spec.precision = ParseNumber(text, &at);
    if (spec.precision < 0) return std::nullopt;
  }
  if (at < text.size()) spec.type = text[at++];
  if (at != text.size()) return std::nullopt;
  return spec;
}

std::string Pad(Runtime& runtime, std::string_view sign, std::string_view body, const Spec& spec,
                char default_align) {
  const Int missing = spec.width - static_cast<Int>(CountCodePoints(body) + CountCodePoints(sign));
  const char align = spec.align != 0 ? spec.align : default_align;
  const Int left = missing <= 0 ? 0 : align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  TextBuilder out(runtime);
  if (align == '=') out.Append(sign);
  out.Repeat(spec.fill, left);
  if (align != '=') out.Append(sign);
  out.Append(body);
  out.Repeat(spec.fill, std::max(Int{0}, missing) - left);
  return out.Take();
}

std::string Group(std::string_view digits, char separator, size_t every) {
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % every == 0) out += separator;
    out += digits[i];
  }
  return out;
}

std::string SignOf(bool negative, char style) {
  if (negative) return "-";
  return style == '-' ? "" : std::string(1, style);
}

using Magnitude = unsigned __int128;

Magnitude MagnitudeOf(Int value) {
  return value < 0 ? Magnitude{0} - static_cast<Magnitude>(value) : static_cast<Magnitude>(value);
}

std::string DigitsInBase(Magnitude magnitude, char type) {
  switch (type) {
    case 'b':
      return fmt::format("{:b}", magnitude);
    case 'o':
      return fmt::format("{:o}", magnitude);
    case 'x':
      return fmt::format("{:x}", magnitude);
    case 'X':
      return fmt::format("{:X}", magnitude);
    default:
      return fmt::format("{}", magnitude);
  }
}

// Digits of a finite magnitude in one of the styles e f g (and E F G); empty after a failure.
std::string FloatDigits(Runtime& runtime, double magnitude, char type, Int precision, bool alternate) {
  if (std::isnan(magnitude)) return type >= 'A' && type <= 'Z' ? "NAN" : "nan";
  if (std::isinf(magnitude)) return type >= 'A' && type <= 'Z' ? "INF" : "inf";
  if (precision > kMaxPrecision) {
    runtime.FailUnsupported("a format precision above {} is not supported", FormatInt(kMaxPrecision));
    return {};
  }
  const int digits = static_cast<int>(precision);
  std::string format = alternate ? "{:#.{}" : "{:.{}";
  format += type;
  format += '}';
  return fmt::format(fmt::runtime(format), magnitude, digits);
}

std::string FormatIntSpec(Runtime& runtime, Int value, const Spec& spec) {
  if (spec.precision >= 0) {
    runtime.Fail("Precision not allowed in integer format specifier");
    return {};
  }
  const bool negative = value < 0;
  const Magnitude magnitude = MagnitudeOf(value);
  if (spec.type == 'c') {
    if (negative || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) {
      runtime.Fail("%c arg not in range(0x110000)");
      return {};
    }
    std::string character;
    AppendCodePoint(static_cast<char32_t>(value), &character);
    return Pad(runtime, "", character, spec, '<');
  }
  std::string digits = DigitsInBase(magnitude, spec.type);
  std::string sign = SignOf(negative, spec.sign);
  if (spec.alternate && spec.type != 0 && spec.type != 'd' && spec.type != 'n') {
    sign += '0';
    sign += spec.type;
  }
  const bool decimal = spec.type == 0 || spec.type == 'd' || spec.type == 'n';
  if (spec.grouping != 0) digits = Group(digits, spec.grouping, decimal ? 3 : 4);
  if (spec.grouping != 0 && spec.zero && spec.align == '=' && spec.fill == "0") {
    // Zeros that fill the width are grouped as well.
    std::string bare = DigitsInBase(magnitude, spec.type);
    const auto width = static_cast<size_t>(std::min<Int>(spec.width, kMaxPrecision));
    while (digits.size() + sign.size() < width) {
      bare.insert(0, "0");
      digits = Group(bare, spec.grouping, decimal ? 3 : 4);
    }
  }
  return Pad(runtime, sign, digits, spec, '>');
}

std::string FormatFloatSpec(Runtime& runtime, double value, const Spec& spec) {
  const std::string sign = SignOf(std::signbit(value) && !std::isnan(value), spec.sign);
  const double magnitude = std::fabs(value);
  std::string digits;
  switch (spec.type) {
    case 0:
      if (spec.precision < 0) {
        digits = FormatFloat(magnitude);
      } else {
        // As 'g', but a whole number keeps a digit behind the point.
        const Int precision = std::max(Int{1}, spec.precision);
        digits = FloatDigits(runtime, magnitude, 'g', precision, spec.alternate);
        if (std::isfinite(magnitude) && digits.find_first_of(".e") == std::string::npos) {
          if (static_cast<Int>(digits.size()) < precision) {
            digits += ".0";
          } else {
            digits = FloatDigits(runtime, magnitude, 'e', precision - 1, false);
            const size_t e = digits.find('e');
            std::string mantissa = digits.substr(0, e);
            if (mantissa.find('.') != std::string::npos) {
              mantissa.erase(mantissa.find_last_not_of('0') + 1);
              if (mantissa.back() == '.') mantissa.pop_back();
            }
            digits = mantissa + digits.substr(e);
          }
        }
      }
      break;
    case '%':
      digits = FloatDigits(runtime, magnitude * 100, 'f', spec.precision < 0 ? 6 : spec.precision,
                           spec.alternate) +
               "%";
      break;
    case 'n':
    case 'g':
    case 'G':
      digits = FloatDigits(runtime, magnitude, spec.type == 'n' ? 'g' : spec.type,
                           spec.precision < 0 ? 6 : std::max(Int{1}, spec.precision), spec.alternate);
      break;
    default:
      digits =
          FloatDigits(runtime, magnitude, spec.type, spec.precision < 0 ? 6 : spec.precision, spec.alternate);
  }
  if (spec.grouping != 0 && std::isfinite(value)) {
    const size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
    digits = Group(std::string_view(digits).substr(0, whole), spec.grouping, 3) + digits.substr(whole);
  }
  return Pad(runtime, sign, digits, spec, '>');
}

std::string FormatTextSpec(Runtime& runtime, std::string_view text, const Spec& spec) {
  if (spec.align == '=' && !spec.zero) {
    runtime.Fail("'=' alignment not allowed in string format specifier");
    return {};
  }
  if (spec.precision >= 0 && spec.precision < static_cast<Int>(text.size())) {
    text = text.substr(0, ByteOffset(text, static_cast<size_t>(spec.precision)));
  }
  Spec padding = spec;
  if (padding.align == '=') padding.align = '<';
  return Pad(runtime, "", text, padding, '<');
}

bool IsOneOf(char c, std::string_view choices) { return choices.find(c) != std::string_view::npos; }

// The ASCII form of repr.
std::string AsciiRepr(Runtime& runtime, const Value& value) {
  const std::string repr = Repr(runtime, value);
  std::string out;
  for (size_t i = 0; i < repr.size();) {
    const char32_t c = NextCodePoint(repr, &i);
    if (c < 0x80) {
      out += static_cast<char>(c);
    } else {
      const auto code = static_cast<uint32_t>(c);
      out += c < 0x100     ? fmt::format("\\x{:02x}", code)
             : c < 0x10000 ? fmt::format("\\u{:04x}", code)
                           : fmt::format("\\U{:08x}", code);
    }
  }
  return out;
}

// --- `%`

class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, const Value& format, const Value& arguments)
      : runtime_(runtime), format_(format.text()), markup_(format.string().markup), out_(runtime) {
    if (arguments.is(Kind::kTuple)) {
      positional_ = arguments.items();
    } else {
      positional_.push_back(arguments);
      // Mappings and lists may be left unused, as in Python.
      may_be_unused_ = arguments.is(Kind::kDict) || arguments.is(Kind::kList) || arguments.is(Kind::kRange) ||
                       arguments.is_undefined();
      if (arguments.is(Kind::kDict)) named_ = arguments;
    }
  }

  std::string Run() {
    for (size_t at = 0; at < format_.size() && !runtime_.failed();) {
      const size_t percent = std::min(format_.find('%', at), format_.size());
      out_.Append(std::string_view(format_).substr(at, percent - at));
      at = percent;
      if (at < format_.size()) Directive(&at);
    }
    if (!runtime_.failed() && next_ < positional_.size() && !may_be_unused_) {
      runtime_.Fail("not all arguments converted during string formatting");
    }
    return out_.Take();
  }

 private:
  const Value* NextArgument() {
    if (next_ < positional_.size()) return &positional_[next_++];
    runtime_.Fail("not enough arguments for format string");
    return nullptr;
  }

  // `*` or digits; -1 where absent.
  Int WidthOrPrecision(size_t* at) {
    if (*at >= format_.size() || format_[*at] != '*') return ParseNumber(format_, at);
    ++*at;
    const Value* argument = NextArgument();
    if (argument == nullptr) return -1;
    if (!argument->is_integral()) {
      runtime_.Fail("* wants int");
      return -1;
    }
    return argument->integer();
  }

  void Directive(size_t* at) {
    Spec spec;
    ++*at;
    const Value* argument = nullptr;
    if (*at < format_.size() && format_[*at] == '(') {
      const size_t close = format_.find(')', *at);
      if (close == std::string::npos) return static_cast<void>(runtime_.Fail("incomplete format key"));
      if (named_.missing()) return static_cast<void>(runtime_.Fail("format requires a mapping"));
      const std::string key = format_.substr(*at + 1, close - *at - 1);
      argument = named_.dict().Find(key);
      if (argument == nullptr) return static_cast<void>(runtime_.Fail("{}", QuoteText(key)));
      *at = close + 1;
    }
    bool left = false;
    for (; *at < format_.size() && IsOneOf(format_[*at], "-+ #0"); ++*at) {
      const char flag = format_[*at];
      if (flag == '-') left = true;
      if (flag == '+' || (flag == ' ' && spec.sign != '+')) spec.sign = flag;
      if (flag == '#') spec.alternate = true;
      if (flag == '0') spec.zero = true;
    }
    spec.width = WidthOrPrecision(at);
    if (spec.width < -1) {
      left = true;
      spec.width = -spec.width;
    }
    spec.width = std::max(Int{0}, spec.width);
    if (*at < format_.size() && format_[*at] == '.') {
      ++*at;
      spec.precision = std::max(Int{0}, WidthOrPrecision(at));
    }
    while (*at < format_.size() && IsOneOf(format_[*at], "hlL")) ++*at;
    if (runtime_.failed()) return;
    if (*at >= format_.size()) return static_cast<void>(runtime_.Fail("incomplete format"));
    spec.align = left ? '<' : '>';
    const char type = format_[(*at)++];
    if (type == '%') return out_.Append('%');
    if (argument == nullptr) argument = NextArgument();
    if (argument != nullptr) Convert(type, *argument, spec, left);
  }

  void Convert(char type, const Value& value, Spec spec, bool left) {
    if (IsOneOf(type, "sra")) {
      const Value shown = markup_ && type == 's' ? Escape(runtime_, value) : value;
      const std::string text = type == 's'   ? ToText(runtime_, shown)
                               : type == 'r' ? Repr(runtime_, value)
                                             : AsciiRepr(runtime_, value);
      return out_.Append(FormatTextSpec(runtime_, text, spec));
    }
    if (type == 'c') return out_.Append(FormatTextSpec(runtime_, Character(value), spec));
    if (!IsOneOf(type, "diuoxXeEfFgG")) {
      runtime_.Fail("unsupported format character '{}' ({:#x})", type, static_cast<unsigned char>(type));
      return;
    }
    if (!value.is_number()) {
      if (value.is_undefined()) return static_cast<void>(runtime_.FailUndefined(value));
      if (IsOneOf(type, "diuoxX")) {
        runtime_.Fail("%{} format: {} is required, not {}", type,
                      IsOneOf(type, "oxX") ? "an integer" : "a real number", TypeName(value));
      } else {
        runtime_.Fail("must be real number, not {}", TypeName(value));
      }
      return;
    }
    if (spec.zero && !left) {
      spec.fill = "0";
      spec.align = '=';
    }
    if (IsOneOf(type, "eEfFgG")) {
      spec.type = type;
      return out_.Append(FormatFloatSpec(runtime_, value.real(), spec));
    }
    ConvertInt(type, value, spec);
  }

  void ConvertInt(char type, const Value& value, Spec spec) {
    if (value.is(Kind::kFloat)) {
      if (IsOneOf(type, "oxX"))
        return static_cast<void>(runtime_.Fail("%{} format: an integer is required, not float", type));
      if (!(std::fabs(value.real()) < 0x1p126))
        return static_cast<void>(runtime_.Fail("cannot convert float to integer"));
    }
    const Int number = value.is_integral() ? value.integer() : static_cast<Int>(value.real());
    std::string digits = DigitsInBase(MagnitudeOf(number), IsOneOf(type, "oxX") ? type : 'd');
    if (spec.precision > kMaxPrecision) {
      runtime_.FailUnsupported("a format precision above {} is not supported", FormatInt(kMaxPrecision));
      return;
    }
    if (static_cast<Int>(digits.size()) < spec.precision) {
      digits.insert(0, static_cast<size_t>(spec.precision) - digits.size(), '0');
    }
    std::string sign = SignOf(number < 0, spec.sign);
    if (spec.alternate && IsOneOf(type, "oxX")) sign += std::string("0") + type;
    out_.Append(Pad(runtime_, sign, digits, spec, '>'));
  }

  std::string Character(const Value& value) {
    if (value.is_string() && value.string().length == 1) return value.text();
    if (value.is_integral()) {
      Spec spec;
      spec.type = 'c';
      return FormatIntSpec(runtime_, value.integer(), spec);
    }
    runtime_.Fail("%c requires int or char");
    return {};
  }

  Runtime& runtime_;
  const std::string& format_;
  bool markup_;
  std::vector<Value> positional_;
  Value named_;
  bool may_be_unused_ = false;
  size_t next_ = 0;
  TextBuilder out_;
};

// --- str.format

class BraceFormatter {
 public:
  BraceFormatter(Runtime& runtime, const Arguments& arguments, bool markup)
      : runtime_(runtime), arguments_(arguments), markup_(markup) {}

  std::string Run(std::string_view format, int depth) {
    TextBuilder out(runtime_);
    if (depth > 2) runtime_.Fail("Max string recursion exceeded");
    for (size_t at = 0; at < format.size() && !runtime_.failed();) {
      const char c = format[at];
      if ((c == '{' || c == '}') && at + 1 < format.size() && format[at + 1] == c) {
        out.Append(c);
        at += 2;
      } else if (c == '{') {
        out.Append(Field(format, &at, depth));
      } else if (c == '}') {
        runtime_.Fail("Single '}}' encountered in format string");
      } else {
        const size_t end = std::min(format.find_first_of("{}", at), format.size());
        out.Append(format.substr(at, end - at));
        at = end;
      }
    }
    return out.Take();
  }

 private:
  // `{name!conversion:spec}` at `*at`.
  std::string Field(std::string_view format, size_t* at, int depth) {
    size_t end = *at + 1;
    int open = 1;
    bool in_brackets = false;
    for (; end < format.size(); ++end) {
      const char c = format[end];
      if (c == '[' && open == 1) in_brackets = true;
      if (c == ']') in_brackets = false;
      if (in_brackets) continue;
      if (c == '{') ++open;
      if (c == '}' && --open == 0) break;
    }
    if (end >= format.size()) {
      runtime_.Fail("{}", *at + 1 >= format.size() ? "Single '{' encountered in format string"
                                                   : "expected '}' before end of string");
      return {};
    }
    const std::string_view field = format.substr(*at + 1, end - *at - 1);
    *at = end + 1;
    size_t name_end = 0;
    for (bool bracket = false; name_end < field.size(); ++name_end) {
      if (field[name_end] == '[') bracket = true;
      if (field[name_end] == ']') bracket = false;
      if (!bracket && (field[name_end] == '!' || field[name_end] == ':')) break;
    }
    Value value = Lookup(field.substr(0, name_end));
    std::string_view rest = field.substr(name_end);
    char conversion = 0;
    if (!rest.empty() && rest[0] == '!') {
      if (rest.size() < 2 || (rest.size() > 2 && rest[2] != ':')) {
        runtime_.Fail("expected ':' after conversion specifier");
        return {};
      }
      conversion = rest[1];
      rest.remove_prefix(2);
    }
    const std::string spec = rest.empty() ? std::string() : Run(rest.substr(1), depth + 1);
    if (runtime_.failed()) return {};
    if (conversion != 0) value = Converted(value, conversion);
    if (runtime_.failed()) return {};
    if (markup_ && spec.empty())
      return Escape(runtime_, value).is_string() ? Escape(runtime_, value).text() : "";
    const std::string text = FormatWithSpec(runtime_, value, spec);
    return markup_ ? EscapeHtml(text) : text;
  }

  Value Converted(const Value& value, char conversion) {
    switch (conversion) {
      case 's':
        return runtime_.MakeString(ToText(runtime_, value));
      case 'r':
        return runtime_.MakeString(Repr(runtime_, value));
      case 'a':
        return runtime_.MakeString(AsciiRepr(runtime_, value));
      default:
        return runtime_.Fail("Unknown conversion specifier {}", conversion);
    }
  }

  // `0.attribute[key]`
  Value Lookup(std::string_view name) {
    size_t at = std::min(name.find_first_of(".["), name.size());
    const std::string_view first = name.substr(0, at);
    Value value = First(first);
    while (at < name.size() && !runtime_.failed()) {
      if (name[at] == '.') {
        const size_t end = std::min(name.find_first_of(".[", at + 1), name.size());
        if (end == at + 1) return runtime_.Fail("Empty attribute in format string");
        value = GetAttribute(runtime_, value, name.substr(at + 1, end - at - 1));
        at = end;
      } else if (name[at] == '[') {
        const size_t close = name.find(']', at);
        if (close == std::string_view::npos) return runtime_.Fail("Missing ']' in format string");
        const std::string_view key = name.substr(at + 1, close - at - 1);
        if (key.empty()) return runtime_.Fail("Empty attribute in format string");
        size_t digits = 0;
        const Int number = ParseNumber(key, &digits);
        value =
            GetItem(runtime_, value,
                    digits == key.size() ? Value::Integer(number) : runtime_.MakeString(std::string(key)));
        at = close + 1;
      } else {
        return runtime_.Fail("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }

  Value First(std::string_view name) {
    size_t digits = 0;
    const Int number = ParseNumber(name, &digits);
    if (digits != name.size()) {
      for (const auto& [key, value] : arguments_.named) {
        if (key == name) return value;
      }
      return runtime_.Fail("{}", QuoteText(name));
    }
    const bool automatic = name.empty();
    if (automatic ? numbered_ == Numbered::kManual : numbered_ == Numbered::kAutomatic) {
      return runtime_.Fail("cannot switch between manual field specification and automatic field numbering");
    }
    numbered_ = automatic ? Numbered::kAutomatic : Numbered::kManual;
    const Int index = automatic ? next_++ : number;
    if (index >= static_cast<Int>(arguments_.positional.size())) {
      return runtime_.Fail("Replacement index {} out of range for positional args tuple", FormatInt(index));
    }
    return arguments_.positional[static_cast<size_t>(index)];
  }

  enum class Numbered { kNone, kAutomatic, kManual };

  Runtime& runtime_;
  const Arguments& arguments_;
  bool markup_;
  Numbered numbered_ = Numbered::kNone;
  Int next_ = 0;
};

}  // namespace

std::string FormatWithSpec(Runtime& runtime, const Value& value, std::string_view spec_text) {
  if (spec_text.empty()) return ToText(runtime, value);
  if (!value.is_string() && !value.is_number()) {
    if (value.is_undefined()) {
      runtime.FailUndefined(value);
    } else {
      runtime.Fail("unsupported format string passed to {}.__format__", TypeName(value));
    }
    return {};
  }
  const std::optional<Spec> spec = ParseSpec(spec_text);
  if (!spec) {
    runtime.Fail("Invalid format specifier");
    return {};
  }
  const bool is_float_type = spec->type != 0 && IsOneOf(spec->type, "eEfFgG%");
  const bool is_int_type = spec->type != 0 && IsOneOf(spec->type, "bcdoxX");
  const bool is_number_type = is_float_type || is_int_type || spec->type == 'n';
  const auto unknown = [&] {
    runtime.Fail("Unknown format code '{}' for object of type '{}'", spec->type, TypeName(value));
    return std::string();
  };
  if (value.is_string()) {
    if (spec->type != 0 && spec->type != 's') return unknown();
    return FormatTextSpec(runtime, value.text(), *spec);
  }
  if (spec->type != 0 && !is_number_type) return unknown();
  if (value.is(Kind::kFloat)) return is_int_type ? unknown() : FormatFloatSpec(runtime, value.real(), *spec);
  if (is_float_type) return FormatFloatSpec(runtime, value.real(), *spec);
  return FormatIntSpec(runtime, value.integer(), *spec);
}

Value FormatPercent(Runtime& runtime, const Value& format, const Value& arguments) {
  std::string text = PercentFormatter(runtime, format, arguments).Run();
  return runtime.failed() ? Value() : runtime.MakeStringLike(format, std::move(text));
}

Value FormatBraces(Runtime& runtime, const Value& format, const Arguments& arguments) {
  std::string text = BraceFormatter(runtime, arguments, format.string().markup).Run(format.text(), 0);
  return runtime.failed() ? Value() : runtime.MakeStringLike(format, std::move(text));
}

}  // namespace lamina::jinja
