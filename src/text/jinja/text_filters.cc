// Filters on text.
#include <algorithm>
#include <array>
#include <charconv>

#include "text/jinja/arguments.h"
#include "text/jinja/attributes.h"
#include "text/jinja/filter_support.h"
#include "text/jinja/filters.h"
#include "text/jinja/format.h"
#include "text/jinja/operators.h"
#include "text/jinja/text_algorithms.h"
#include "text/jinja/unicode.h"

namespace lamina::jinja {

namespace {

// The value as a string, markup kept.
Value SoftText(Runtime& runtime, const Value& value) {
  return value.is_string() ? value : runtime.MakeString(ToText(runtime, value));
}

// A filter that is a method of str applied to the value as text.
Value TextMethod(Runtime& runtime, const Value& value, std::string_view method, const Arguments& args) {
  const Value text = SoftText(runtime, value);
  return text.is_string() ? FindStringMethod(method)(runtime, text, args) : Value();
}

Value Upper(Runtime& runtime, const Value& value, const Arguments& args) {
  return TextMethod(runtime, value, "upper", args);
}
Value Lower(Runtime& runtime, const Value& value, const Arguments& args) {
  return TextMethod(runtime, value, "lower", args);
}
Value CapitalizeFilter(Runtime& runtime, const Value& value, const Arguments& args) {
  return TextMethod(runtime, value, "capitalize", args);
}

Value Trim(Runtime& runtime, const Value& value, const Arguments& args) {
  const auto [characters] = BindArguments<1>(runtime, "trim", args, {"chars"}, 0);
  if (runtime.failed()) return Value();
  return TextMethod(runtime, value, "strip",
                    {characters.missing() ? std::vector<Value>{} : std::vector<Value>{characters}, {}});
}

Value Center(Runtime& runtime, const Value& value, const Arguments& args) {
  const auto [width] = BindArguments<1>(runtime, "center", args, {"width"}, 0);
  if (runtime.failed()) return Value();
  return TextMethod(runtime, value, "center", {{width.missing() ? Value::Integer(80) : width}, {}});
}

// Title case by words that start after white space, hyphens and opening brackets.
Value Title(Runtime& runtime, const Value& value, const Arguments& args) {
  if (!CheckPositional(runtime, "title", args, 0, 0)) return Value();
  const Value text_value = SoftText(runtime, value);
  if (!text_value.is_string()) return Value();
  const std::string& text = text_value.text();
  const auto is_separator = [](char32_t c) {
    return IsSpace(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  };
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t start = i;
    size_t end = i;
    bool separator = is_separator(NextCodePoint(text, &end));
    const bool first_is_separator = separator;
    while (i < text.size() && separator == first_is_separator) {
      i = end;
      if (i < text.size()) separator = is_separator(NextCodePoint(text, &end));
    }
    const std::string_view part = std::string_view(text).substr(start, i - start);
    size_t first = 0;
    NextCodePoint(part, &first);
    out += ToUpper(part.substr(0, first));
    out += ToLower(part.substr(first));
  }
  return runtime.MakeString(std::move(out));
}

Value Replace(Runtime& runtime, const Value& value, const Arguments& args) {
  const auto [old_text, new_text, count] =
      BindArguments<3>(runtime, "replace", args, {"old", "new", "count"}, 2);
  if (runtime.failed()) return Value();
  const auto limit = count.is_none() ? std::optional<Int>(-1) : IndexOr(runtime, count, "count", -1);
  if (!limit) return Value();
  return runtime.MakeString(ReplaceText(runtime, ToText(runtime, value), ToText(runtime, old_text),
                                        ToText(runtime, new_text), *limit));
}

Value Indent(Runtime& runtime, const Value& value, const Arguments& args) {
  const auto [width, first, blank] =
      BindArguments<3>(runtime, "indent", args, {"width", "first", "blank"}, 0);
  if (runtime.failed()) return Value();
  if (!value.is_string()) {
    return value.is_undefined()
               ? runtime.FailUndefined(value)
               : runtime.Fail("unsupported operand type(s) for +=: '{}' and 'str'", TypeName(value));
  }
  TextBuilder indention(runtime);
  if (width.is_string()) {
    indention.Append(width.text());
  } else {
    const auto columns = IndexOr(runtime, width, "width", 4);
    if (!columns) return Value();
    indention.Repeat(" ", *columns);
  }
  const bool indent_first = TruthyOr(runtime, first, false);
  const bool indent_blank = TruthyOr(runtime, blank, false);
  const std::string text = value.text() + "\n";
  TextBuilder out(runtime);
  bool first_line = true;
  for (const std::string_view line : SplitLines(text, false)) {
    if (!first_line) out.Append('\n');
    if (first_line ? indent_first : indent_blank || !line.empty()) out.Append(indention.text());
    out.Append(line);
    first_line = false;
  }
  return runtime.MakeStringLike(value, out.Take());
}

Value Truncate(Runtime& runtime, const Value& value, const Arguments& args) {
  const auto [length_value, killwords, end_value, leeway_value] =
      BindArguments<4>(runtime, "truncate", args, {"length", "killwords", "end", "leeway"}, 0);
  if (runtime.failed()) return Value();
  const auto length = IndexOr(runtime, length_value, "length", 255);
  const auto leeway =
      leeway_value.is_none() ? std::optional<Int>(5) : IndexOr(runtime, leeway_value, "leeway", 5);
  if (!length || !leeway) return Value();
  const std::string end = end_value.missing() ? "..." : ToText(runtime, end_value);
  const auto end_length = static_cast<Int>(CountCodePoints(end));
  if (*length < end_length) return runtime.Fail("expected length >= {}, got {}", end_length, *length);
  if (*leeway < 0) return runtime.Fail("expected leeway >= 0, got {}", *leeway);
  const auto value_length = Length(runtime, value);
  if (!value_length) return runtime.Fail("object of type '{}' has no len()", TypeName(value));
  if (*value_length <= *leeway || *value_length - *leeway <= *length) return value;
  if (!value.is_string()) return runtime.Fail("truncate() cannot shorten a {}", TypeName(value));
  const std::string& text = value.text();
  std::string kept = text.substr(0, ByteOffset(text, static_cast<size_t>(*length - end_length)));
  if (!TruthyOr(runtime, killwords, false)) {
    const size_t space = kept.rfind(' ');
    if (space != std::string::npos) kept.resize(space);
  }
  return runtime.MakeStringLike(value, kept + end);
}

Value WordCount(Runtime& runtime, const Value& value, const Arguments& args) {
  if (!CheckPositional(runtime, "wordcount", args, 0, 0)) return Value();
  const std::string text = ToText(runtime, value);
  if (!runtime.ChargeBytes(text.size())) return Value();
  Int count = 0;
  bool in_word = false;
  for (size_t i = 0; i < text.size();) {
    const bool word = IsWordCharacter(NextCodePoint(text, &i));
    if (word && !in_word) ++count;
    in_word = word;
  }
  return Value::Integer(count);
}

// --- HTML and URLs

Value Safe(Runtime& runtime, const Value& value, const Arguments& args) {
  if (!CheckPositional(runtime, "safe", args, 0, 0)) return Value();
  return runtime.MakeMarkup(ToText(runtime, value));
}

Value EscapeFilter(Runtime& runtime, const Value& value, const Arguments& args) {
  if (!CheckPositional(runtime, "escape", args, 0, 0)) return Value();
  return Escape(runtime, value);
}

Value ForceEscape(Runtime& runtime, const Value& value, const Arguments& args) {
  if (!CheckPositional(runtime, "forceescape", args, 0, 0)) return Value();
  return Escape(runtime, runtime.MakeString(ToText(runtime, value)));
}

// Appends the character that "&name;" or "&#n;" stands for; `name` is what stands between. False where it is
// not known.
bool AppendEntity(std::string_view name, std::string* out) {
  struct Entity {
    std::string_view name;
    std::string_view text;
  };
  constexpr std::array<Entity, 6> kEntities = {
      {{"lt", "<"}, {"gt", ">"}, {"amp", "&"}, {"quot", "\""}, {"apos", "'"}, {"nbsp", "\u00a0"}}};
  for (const Entity& entity : kEntities) {
    if (name != entity.name) continue;
    *out += entity.text;
    return true;
  }
  if (name.size() < 2 || name[0] != '#') return false;
  const bool hex = name[1] == 'x' || name[1] == 'X';
  const std::string_view digits = name.substr(hex ? 2 : 1);
  uint32_t code = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), code, hex ? 16 : 10);
  // The windows-1252 characters that HTML reads for controls, and what is no character, are left to others.
  if (error != std::errc() || end != digits.data() + digits.size() || code < 0x20 ||
      (code >= 0x7f && code < 0xa0) || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff ||
      (code & 0xfffe) == 0xfffe || (code >= 0xfdd0 && code < 0xfdf0)) {
    return false;
  }
  AppendCodePoint(code, out);
  return true;
}

// Characters in place of HTML's entities; an entity that is not known is refused, not passed on.
Value UnescapeHtml(Runtime& runtime, std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t ampersand = std::min(text.find('&'), text.size());
    out += text.substr(0, ampersand);
    text.remove_prefix(ampersand);
    if (text.empty()) break;
    const size_t name_end = std::min(text.find_first_of("\t\n\f <&#;", 2), text.size());
    const std::string_view name = text.substr(1, name_end - 1);
    const bool is_name =
        !name.empty() && (name[0] == '#' || (name[0] | 0x20) >= 'a') && (name[0] | 0x20) <= 'z';
    if (!is_name) {
      out += '&';
      text.remove_prefix(1);
      continue;
    }
    if (name_end == text.size() || text[name_end] != ';' || !AppendEntity(name, &out)) {
      return runtime.FailUnsupported("striptags() does not know the entity '&{}'", name);
    }
    text.remove_prefix(name_end + 1);
  }
  return runtime.MakeString(std::move(out));
}

// The text without what stands between `begin` and the next `end` behind it, both included; what has no end
// stays.
std::string WithoutEnclosed(std::string_view text, std::string_view begin, std::string_view end) {
  std::string out;
  for (size_t at = text.find(begin); at != std::string_view::npos; at = text.find(begin)) {
    const size_t stop = text.find(end, at + begin.size());
    if (stop == std::string_view::npos) break;
    out += text.substr(0, at);
    text.remove_prefix(stop + end.size());
  }
  return out.append(text);
}

Value StripTags(Runtime& runtime, const Value& value, const Arguments& args) {
  if (!CheckPositional(runtime, "striptags", args, 0, 0)) return Value();
  const std::string given = ToText(runtime, value);
  if (!runtime.ChargeBytes(given.size())) return Value();
  const std::string text = WithoutEnclosed(WithoutEnclosed(given, "<!--", "-->"), "<", ">");
  std::string collapsed;
  for (const std::string_view word : SplitAtSpace(text, -1, false)) {
    if (!collapsed.empty()) collapsed += ' ';
    collapsed += word;
  }
  return UnescapeHtml(runtime, collapsed);
}

std::string QuoteForUrl(std::string_view text, bool query) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '.' || c == '-' || c == '~' || (c == '/' && !query);
    if (plain) {
      out += c;
    } else if (c == ' ' && query) {
      out += '+';
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

Value UrlEncode(Runtime& runtime, const Value& value, const Arguments& args) {
  if (!CheckPositional(runtime, "urlencode", args, 0, 0)) return Value();
  if (value.is_string() || !IsIterable(value)) {
    const std::string text = ToText(runtime, value);
    if (!runtime.Reserve(3 * text.size())) return Value();
    return runtime.MakeString(QuoteForUrl(text, false));
  }
  const Value pairs =
      value.is(Kind::kDict) ? FindContainerMethod(Kind::kDict, "items")(runtime, value, {}) : value;
  TextBuilder out(runtime);
  for (const Value& pair : Collect(runtime, pairs)) {
    const std::vector<Value> parts = Collect(runtime, pair);
    if (runtime.failed()) return Value();
    if (parts.size() != 2) return runtime.Fail("urlencode() needs pairs of key and value");
    if (!out.text().empty()) out.Append('&');
    out.Append(QuoteForUrl(ToText(runtime, parts[0]), true));
    out.Append('=');
    out.Append(QuoteForUrl(ToText(runtime, parts[1]), true));
  }
  return runtime.MakeString(out.Take());
}

Value XmlAttributes(Runtime& runtime, const Value& value, const Arguments& args) {
  const auto [autospace] = BindArguments<1>(runtime, "xmlattr", args, {"autospace"}, 0);
  if (runtime.failed()) return Value();
  if (!value.is(Kind::kDict)) return runtime.Fail("xmlattr() needs a dict, not {}", TypeName(value));
  TextBuilder out(runtime);
  for (const Dict::Entry& entry : value.dict().entries) {
    if (entry.value.is_none() || entry.value.is_undefined()) continue;
    if (!entry.key.is_string()) return runtime.Fail("expected string or bytes-like object");
    if (entry.key.text().find_first_of(" \t\n\r\f\v/>=") != std::string::npos) {
      return runtime.Fail("Invalid character in attribute name: {}", QuoteText(entry.key.text()));
    }
    const Value shown = Escape(runtime, entry.value);
    if (!shown.is_string()) return Value();
    if (!out.text().empty() || TruthyOr(runtime, autospace, true)) out.Append(' ');
    out.Append(EscapeHtml(entry.key.text()) + "=\"" + shown.text() + "\"");
  }
  return runtime.MakeString(out.Take());
}

constexpr std::array<FilterEntry, 19> kFilters = {{
    {"capitalize", CapitalizeFilter},
    {"center", Center},
    {"e", EscapeFilter},
    {"escape", EscapeFilter},
    {"forceescape", ForceEscape},
    {"indent", Indent},
    {"lower", Lower},
    {"pprint", PrettyPrint},
    {"replace", Replace},
    {"safe", Safe},
    {"striptags", StripTags},
    {"title", Title},
    {"trim", Trim},
    {"truncate", Truncate},
    {"upper", Upper},
    {"urlencode", UrlEncode},
    {"wordcount", WordCount},
    {"wordwrap", WordWrap},
    {"xmlattr", XmlAttributes},
}};

}  // namespace

Filter FindTextFilter(std::string_view name) {
  const auto found = std::find_if(kFilters.begin(), kFilters.end(),
                                  [&](const FilterEntry& entry) { return entry.name == name; });
  return found == kFilters.end() ? nullptr : found->filter;
}

}  // namespace lamina::jinja
