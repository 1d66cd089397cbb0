#include "text/jinja/format.h"

#include <charconv>
#include <cmath>

#include "text/jinja/unicode.h"

namespace lamina::jinja {

namespace {

void AppendRepr(Runtime& runtime, const Value& value, TextBuilder* out);

template <typename Items, typename AppendItem>
void AppendList(const Items& items, std::string_view open, std::string_view close, TextBuilder* out,
                AppendItem append_item) {
  out->Append(open);
  bool first = true;
  for (const auto& item : items) {
    if (out->runtime().failed()) return;
    if (!first) out->Append(", ");
    first = false;
    append_item(item);
  }
  out->Append(close);
}

void AppendDict(Runtime& runtime, const Dict& dict, TextBuilder* out) {
  AppendList(dict.entries, "{", "}", out, [&](const Dict::Entry& entry) {
    AppendRepr(runtime, entry.key, out);
    out->Append(": ");
    AppendRepr(runtime, entry.value, out);
  });
}

void AppendDictView(Runtime& runtime, const DictView& view, TextBuilder* out) {
  const auto& entries = view.source.dict().entries;
  switch (view.part) {
    case DictView::Part::kKeys:
      return AppendList(entries, "dict_keys([", "])", out,
                        [&](const Dict::Entry& entry) { AppendRepr(runtime, entry.key, out); });
    case DictView::Part::kValues:
      return AppendList(entries, "dict_values([", "])", out,
                        [&](const Dict::Entry& entry) { AppendRepr(runtime, entry.value, out); });
    case DictView::Part::kItems:
      return AppendList(entries, "dict_items([", "])", out, [&](const Dict::Entry& entry) {
        out->Append('(');
        AppendRepr(runtime, entry.key, out);
        out->Append(", ");
        AppendRepr(runtime, entry.value, out);
        out->Append(')');
      });
  }
}

// What str and repr share: everything but strings and undefined values.
void AppendOther(Runtime& runtime, const Value& value, TextBuilder* out) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kString:
      return;
    case Kind::kNone:
      return out->Append("None");
    case Kind::kBool:
      return out->Append(value.boolean() ? "True" : "False");
    case Kind::kInt:
      return out->Append(FormatInt(value.integer()));
    case Kind::kFloat:
      return out->Append(FormatFloat(value.real()));
    case Kind::kList:
      return AppendList(value.items(), "[", "]", out,
                        [&](const Value& item) { AppendRepr(runtime, item, out); });
    case Kind::kTuple:
      return AppendList(value.items(), "(", value.items().size() == 1 ? ",)" : ")", out,
                        [&](const Value& item) { AppendRepr(runtime, item, out); });
    case Kind::kDict:
      return AppendDict(runtime, value.dict(), out);
    case Kind::kDictView:
      return AppendDictView(runtime, value.dict_view(), out);
    case Kind::kRange: {
      const Range& range = value.range();
      out->Append("range(" + FormatInt(range.start) + ", " + FormatInt(range.stop));
      if (range.step != 1) out->Append(", " + FormatInt(range.step));
      return out->Append(')');
    }
    case Kind::kIterator:
      out->Append('<');
      out->Append(value.iterator().type_name);
      return out->Append(" object>");
    case Kind::kNamespace:
      return AppendList(value.name_space().attributes, "<Namespace {", "}>", out, [&](const auto& attribute) {
        out->Append(QuoteText(attribute.first));
        out->Append(": ");
        AppendRepr(runtime, attribute.second, out);
      });
    case Kind::kCallable:
      return out->Append(value.callable().Describe());
    case Kind::kLoop:
      out->Append("<LoopContext " + FormatInt(value.loop().index0 + 1) + "/" +
                  FormatInt(value.loop().Length(runtime)) + ">");
      return;
  }
}

void AppendRepr(Runtime& runtime, const Value& value, TextBuilder* out) {
  const DepthGuard guard(runtime);
  if (!guard.ok() || !runtime.Charge()) return;
  if (value.is_undefined()) return out->Append("Undefined");
  if (!value.is_string()) return AppendOther(runtime, value, out);
  constexpr size_t kMostBytesPerByte = 4;  // "\\x01"
  if (!runtime.ChargeBytes(value.text().size()) || !runtime.Reserve(kMostBytesPerByte * value.text().size()))
    return;
  if (value.string().markup) out->Append("Markup(");
  out->Append(QuoteText(value.text()));
  if (value.string().markup) out->Append(')');
}

}  // namespace

std::string ToText(Runtime& runtime, const Value& value) {
  if (value.is_string()) return value.text();
  TextBuilder out(runtime);
  AppendOther(runtime, value, &out);
  return out.Take();
}

void AppendText(Runtime& runtime, const Value& value, std::string* out) {
  if (value.is_string()) {
    out->append(value.text());
  } else {
    out->append(ToText(runtime, value));
  }
}

std::string Repr(Runtime& runtime, const Value& value) {
  TextBuilder out(runtime);
  AppendRepr(runtime, value, &out);
  return out.Take();
}

std::string QuoteText(std::string_view text) {
  const bool double_quotes =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = double_quotes ? '"' : '\'';
  std::string out(1, quote);
  for (size_t i = 0; i < text.size();) {
    const char32_t c = NextCodePoint(text, &i);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c < 0x80 ? c >= 0x20 && c != 0x7f : IsPrintable(c)) {
      AppendCodePoint(c, &out);
    } else if (c < 0x100) {
      out += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
    } else if (c < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else {
      out += fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
    }
  }
  out += quote;
  return out;
}

std::string FormatInt(Int value) { return fmt::format("{}", value); }

std::string FormatFloat(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), std::fabs(value), std::chars_format::scientific).ptr;
  // d.ddde[+-]xx
  const std::string_view text(buffer, static_cast<size_t>(end - buffer));
  const size_t e = text.find('e');
  std::string digits(1, text[0]);
  if (e > 2) digits += text.substr(2, e - 2);
  int exponent = 0;
  const size_t exponent_digits = e + (text[e + 1] == '+' ? 2 : 1);
  std::from_chars(text.data() + exponent_digits, text.data() + text.size(), exponent);

  std::string out = std::signbit(value) ? "-" : "";
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits.substr(0, 1);
    if (count > 1) out += "." + digits.substr(1);
    return out + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (exponent + 1 >= count) {
    return out + digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  }
  const auto whole = static_cast<size_t>(exponent + 1);
  return out + digits.substr(0, whole) + "." + digits.substr(whole);
}

std::string EscapeHtml(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

Value Escape(Runtime& runtime, const Value& value) {
  if (value.is_string() && value.string().markup) return value;
  constexpr size_t kMostBytesPerByte = 5;  // "&#34;"
  if (value.is_string() && !runtime.Reserve(kMostBytesPerByte * value.text().size())) return Value();
  return runtime.MakeMarkup(EscapeHtml(ToText(runtime, value)));
}

}  // namespace lamina::jinja
