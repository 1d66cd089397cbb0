// Filters on single values: numbers, conversions, JSON.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "text/jinja/arguments.h"
#include "text/jinja/attributes.h"
#include "text/jinja/filter_support.h"
#include "text/jinja/filters.h"
#include "text/jinja/format.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace lamina::jinja {

namespace {

Value Abs(Runtime& runtime, const Value& value, const Arguments& args) {
  if (!CheckPositional(runtime, "abs", args, 0, 0)) return Value();
  if (value.is_integral())
    return value.integer() < 0 ? Negate(runtime, value) : Value::Integer(value.integer());
  if (value.is(Kind::kFloat)) return Value::Float(std::fabs(value.real()));
  return runtime.Fail("bad operand type for abs(): '{}'", TypeName(value));
}

Value Attr(Runtime& runtime, const Value& value, const Arguments& args) {
  const auto [name] = BindArguments<1>(runtime, "attr", args, {"name"}, 1);
  if (runtime.failed()) return Value();
  if (!name.is_string()) return runtime.Fail("attribute name must be string, not '{}'", TypeName(name));
  const Value found = FindAttribute(runtime, value, name.text());
  if (!found.missing() || runtime.failed()) return found;
  return runtime.MakeUndefined(
      fmt::format("'{} object' has no attribute {}", TypeName(value), QuoteText(name.text())));
}

Value Default(Runtime& runtime, const Value& value, const Arguments& args) {
  const auto [fallback, boolean] =
      BindArguments<2>(runtime, "default", args, {"default_value", "boolean"}, 0);
  if (runtime.failed()) return Value();
  const bool use = value.is_undefined() || (TruthyOr(runtime, boolean, false) && !Truthy(runtime, value));
  if (!use) return value;
  return fallback.missing() ? runtime.MakeString("") : fallback;
}

Value LengthFilter(Runtime& runtime, const Value& value, const Arguments& args) {
  if (!CheckPositional(runtime, "length", args, 0, 0)) return Value();
  const auto length = Length(runtime, value);
  return length ? Value::Integer(*length) : runtime.Fail("object of type '{}' has no len()", TypeName(value));
}

Value StringFilter(Runtime& runtime, const Value& value, const Arguments& args) {
  if (!CheckPositional(runtime, "string", args, 0, 0)) return Value();
  return value.is_string() ? value : runtime.MakeString(ToText(runtime, value));
}

Value FormatFilter(Runtime& runtime, const Value& value, const Arguments& args) {
  if (!args.positional.empty() && !args.named.empty()) {
    return runtime.Fail("can't handle positional and keyword arguments at the same time");
  }
  const Value format = StringFilter(runtime, value, {});
  if (!format.is_string()) return Value();
  if (args.named.empty()) return FormatPercent(runtime, format, runtime.MakeTuple(args.positional));
  auto named = runtime.NewDict();
  for (const auto& [name, argument] : args.named)
    runtime.AddToDict(*named, runtime.MakeString(name), argument);
  return FormatPercent(runtime, format, Runtime::FromDict(std::move(named)));
}

// --- Numbers from text, as Python's int() and float() read it.

// Without single underscores between digits and with digits of all scripts as ASCII; nothing where an
// underscore stands elsewhere.
std::optional<std::string> PlainDigits(std::string_view text) {
  std::string out;
  bool after_digit = false;
  for (size_t i = 0; i < text.size();) {
    const size_t start = i;
    const char32_t c = NextCodePoint(text, &i);
    if (c == '_') {
      size_t next = i;
      if (!after_digit || i >= text.size() || !IsAlphanumeric(NextCodePoint(text, &next)))
        return std::nullopt;
      after_digit = false;
      continue;
    }
    const int digit = DecimalValue(c);
    after_digit = IsAlphanumeric(c);
    if (digit >= 0) {
      out += static_cast<char>('0' + digit);
    } else {
      out += text.substr(start, i - start);
    }
  }
  return out;
}

enum class NumberError { kNone, kNotANumber, kTooLarge };

NumberError ParseInt(std::string_view text, Int base, Int* value) {
  text = StripSpace(text);
  bool negative = false;
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  if (text.size() > 1 && text[0] == '0') {
    const char marker = static_cast<char>(text[1] | 0x20);
    const Int marked = marker == 'x' ? 16 : marker == 'o' ? 8 : marker == 'b' ? 2 : 0;
    if (marked != 0 && (base == marked || base == 0)) {
      base = marked;
      text.remove_prefix(2);
      if (!text.empty() && text[0] == '_') text.remove_prefix(1);
    }
  }
  const bool literal = base == 0;
  if (literal) base = 10;
  const auto digits = PlainDigits(text);
  if (!digits || digits->empty()) return NumberError::kNotANumber;
  *value = 0;
  bool too_large = false;
  for (const char c : *digits) {
    const Int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 10
                      : c >= 'A' && c <= 'Z' ? c - 'A' + 10
                                             : base;
    if (digit >= base) return NumberError::kNotANumber;
    if (!too_large &&
        (__builtin_mul_overflow(*value, base, value) || __builtin_add_overflow(*value, digit, value))) {
      too_large = true;
    }
  }
  if (too_large) return NumberError::kTooLarge;
  const bool leading_zero = literal && (*digits)[0] == '0' && *value != 0;
  if (leading_zero) return NumberError::kNotANumber;
  if (negative) *value = -*value;
  return NumberError::kNone;
}

std::optional<double> ParseFloat(std::string_view text) {
  text = StripSpace(text);
  const auto digits = PlainDigits(text);
  if (!digits || digits->empty()) return std::nullopt;
  std::string_view rest = *digits;
  bool negative = false;
  if (rest[0] == '+' || rest[0] == '-') {
    negative = rest[0] == '-';
    rest.remove_prefix(1);
  }
  const std::string lower = ToLower(rest);
  double value = 0;
  if (lower == "inf" || lower == "infinity") {
    value = HUGE_VAL;
  } else if (lower == "nan") {
    value = NAN;
  } else {
    if (rest.empty() || rest.find_first_not_of("0123456789.eE+-") != std::string_view::npos)
      return std::nullopt;
    const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (parsed.ptr != rest.data() + rest.size()) return std::nullopt;
    if (parsed.ec == std::errc::result_out_of_range) {
      // from_chars does not say which way; strtod does, and reads this form alike in every locale but for
      // the point, which cannot change the direction.
      value = std::strtod(std::string(rest.substr(0, rest.find('.'))).c_str(), nullptr) > 1 ||
                      lower.find("e-") == std::string::npos
                  ? HUGE_VAL
                  : 0.0;
    } else if (parsed.ec != std::errc()) {
      return std::nullopt;
    }
  }
  return negative ? -value : value;
}

Value TruncateFloat(Runtime& runtime, double value, const Value& fallback) {
  if (std::isnan(value)) return fallback;
  if (std::isinf(value)) return runtime.Fail("cannot convert float infinity to integer");
  if (std::fabs(value) >= 0x1p126) return runtime.FailUnsupported("an integer exceeds 128 bits");
  return Value::Integer(static_cast<Int>(value));
}

Value IntFilter(Runtime& runtime, const Value& value, const Arguments& args) {
  const auto [default_value, base_value] = BindArguments<2>(runtime, "int", args, {"default", "base"}, 0);
  if (runtime.failed()) return Value();
  const Value fallback = default_value.missing() ? Value::Integer(0) : default_value;
  const auto base = IndexOr(runtime, base_value, "base", 10);
  if (!base) return Value();
  if (value.is_integral()) return Value::Integer(value.integer());
  if (value.is(Kind::kFloat)) return TruncateFloat(runtime, value.real(), fallback);
  if (value.is_undefined()) return runtime.FailUndefined(value);
  if (!value.is_string()) return fallback;
  if (!runtime.ChargeBytes(value.text().size())) return Value();
  Int parsed = 0;
  const bool base_fits = *base == 0 || (*base >= 2 && *base <= 36);
  switch (base_fits ? ParseInt(value.text(), *base, &parsed) : NumberError::kNotANumber) {
    case NumberError::kNone:
      return Value::Integer(parsed);
    case NumberError::kTooLarge:
      return runtime.FailUnsupported("an integer exceeds 128 bits");
    case NumberError::kNotANumber:
      break;
  }
  const auto real = ParseFloat(value.text());
  return real ? TruncateFloat(runtime, *real, fallback) : fallback;
}

Value FloatFilter(Runtime& runtime, const Value& value, const Arguments& args) {
  const auto [default_value] = BindArguments<1>(runtime, "float", args, {"default"}, 0);
  if (runtime.failed()) return Value();
  const Value fallback = default_value.missing() ? Value::Float(0) : default_value;
  if (value.is_number()) return Value::Float(value.real());
  if (value.is_undefined()) return runtime.FailUndefined(value);
  if (!value.is_string()) return fallback;
  const auto parsed = ParseFloat(value.text());
  return parsed ? Value::Float(*parsed) : fallback;
}

// Python's round(float, digits): the decimal nearest to the exact value.
double RoundFloat(double value, Int digits) {
  if (!std::isfinite(value) || digits > 330) return value;
  if (digits < -310) return std::copysign(0.0, value);
  if (digits < 0) {
    const double scale = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(value / scale) * scale;
  }
  const std::string text = fmt::format("{:.{}f}", value, static_cast<int>(digits));
  double rounded = value;
  std::from_chars(text.data(), text.data() + text.size(), rounded);
  return rounded;
}

Value RoundInt(Int value, Int digits) {
  if (digits >= 0) return Value::Integer(value);
  if (digits < -38) return Value::Integer(0);
  Int scale = 1;
  for (Int i = digits; i < 0; ++i) scale *= 10;
  Int quotient = value / scale;
  Int remainder = value % scale;
  if (remainder < 0) {
    remainder += scale;
    --quotient;
  }
  const Int half = scale / 2;
  if (remainder > half || (remainder == half && quotient % 2 != 0)) ++quotient;
  return Value::Integer(quotient * scale);
}

Value Round(Runtime& runtime, const Value& value, const Arguments& args) {
  const auto [precision_value, method_value] =
      BindArguments<2>(runtime, "round", args, {"precision", "method"}, 0);
  if (runtime.failed()) return Value();
  const auto precision = IndexOr(runtime, precision_value, "precision", 0);
  if (!precision) return Value();
  const std::string method = method_value.missing() ? "common" : ToText(runtime, method_value);
  if (method != "common" && method != "ceil" && method != "floor") {
    return runtime.Fail("method must be common, ceil or floor");
  }
  if (value.is_undefined()) return runtime.FailUndefined(value);
  if (!value.is_number()) return runtime.Fail("type {} doesn't define __round__ method", TypeName(value));
  if (method == "common") {
    return value.is_integral() ? RoundInt(value.integer(), *precision)
                               : Value::Float(RoundFloat(value.real(), *precision));
  }
  const Value scale = Binary(runtime, BinaryOp::kPower, Value::Integer(10), Value::Integer(*precision));
  const Value scaled = Binary(runtime, BinaryOp::kMultiply, value, scale);
  if (runtime.failed()) return Value();
  if (scaled.is_integral()) return Binary(runtime, BinaryOp::kDivide, scaled, scale);
  if (!std::isfinite(scaled.real())) return runtime.Fail("cannot convert float to integer");
  const double whole = method == "ceil" ? std::ceil(scaled.real()) : std::floor(scaled.real());
  return Binary(runtime, BinaryOp::kDivide, Value::Float(whole), scale);
}

Value FileSizeFormat(Runtime& runtime, const Value& value, const Arguments& args) {
  const auto [binary] = BindArguments<1>(runtime, "filesizeformat", args, {"binary"}, 0);
  if (runtime.failed()) return Value();
  const auto parsed = value.is_number()   ? std::optional<double>(value.real())
                      : value.is_string() ? ParseFloat(value.text())
                                          : std::nullopt;
  if (!parsed) return runtime.Fail("filesizeformat() needs a number, not {}", TypeName(value));
  const bool is_binary = TruthyOr(runtime, binary, false);
  const double base = is_binary ? 1024 : 1000;
  const double bytes = *parsed;
  if (bytes == 1) return runtime.MakeString("1 Byte");
  if (bytes < base) return runtime.MakeString(fmt::format("{:.0f} Bytes", std::trunc(bytes)));
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  double unit = base;
  for (size_t i = 0; i < kPrefixes.size(); ++i) {
    unit *= base;
    if (bytes >= unit && i + 1 < kPrefixes.size()) continue;
    const char prefix = is_binary && i == 0 ? 'K' : kPrefixes[i];
    return runtime.MakeString(
        fmt::format("{:.1f} {}{}", base * bytes / unit, prefix, is_binary ? "iB" : "B"));
  }
  return Value();
}

// --- JSON

Value ToJsonFilter(Runtime& runtime, const Value& value, const Arguments& args) {
  const auto [ensure_ascii, indent, separators, sort_keys] =
      BindArguments<4>(runtime, "tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"}, 0);
  if (runtime.failed()) return Value();
  JsonStyle style;
  style.ensure_ascii = TruthyOr(runtime, ensure_ascii, false);
  style.sort_keys = TruthyOr(runtime, sort_keys, false);
  if (!indent.missing() && !indent.is_none()) {
    style.pretty = true;
    style.item_separator = ",";
    if (indent.is_string()) {
      style.indent = indent.text();
    } else {
      const auto columns = ToIndex(runtime, indent, "indent");
      if (!columns) return Value();
      TextBuilder spaces(runtime);
      spaces.Repeat(" ", *columns);
      style.indent = spaces.Take();
    }
  }
  if (!separators.missing() && !separators.is_none()) {
    const std::vector<Value> pair = Collect(runtime, separators);
    if (runtime.failed()) return Value();
    if (pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
      return runtime.Fail("tojson(): separators must be two strings");
    }
    style.item_separator = pair[0].text();
    style.key_separator = pair[1].text();
  }
  std::string text = ToJson(runtime, value, style);
  return runtime.failed() ? Value() : runtime.MakeString(std::move(text));
}

// --- Filters of Jinja2 that chat templates have no use for.

Value Urlize(Runtime& runtime, const Value&, const Arguments&) {
  return runtime.FailUnsupported("the filter 'urlize' is not supported");
}

// A prompt must not depend on chance.
Value RandomItem(Runtime& runtime, const Value&, const Arguments&) {
  return runtime.FailUnsupported("the filter 'random' is not supported");
}

constexpr std::array<FilterEntry, 15> kFilters = {{
    {"abs", Abs},
    {"attr", Attr},
    {"count", LengthFilter},
    {"d", Default},
    {"default", Default},
    {"filesizeformat", FileSizeFormat},
    {"float", FloatFilter},
    {"format", FormatFilter},
    {"int", IntFilter},
    {"length", LengthFilter},
    {"random", RandomItem},
    {"round", Round},
    {"string", StringFilter},
    {"tojson", ToJsonFilter},
    {"urlize", Urlize},
}};

}  // namespace

Filter FindValueFilter(std::string_view name) {
  const auto found = std::find_if(kFilters.begin(), kFilters.end(),
                                  [&](const FilterEntry& entry) { return entry.name == name; });
  return found == kFilters.end() ? nullptr : found->filter;
}

}  // namespace lamina::jinja
