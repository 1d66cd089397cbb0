// How values become text: str, repr, float digits, `%` formatting, str.format, JSON.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/runtime.h"

namespace lamina::jinja {

// str(value). Fails beyond the memory limit.
std::string ToText(Runtime& runtime, const Value& value);
// Appends str(value) without copying strings first.
void AppendText(Runtime& runtime, const Value& value, std::string* out);
std::string Repr(Runtime& runtime, const Value& value);
// repr of a string: quoted and escaped.
std::string QuoteText(std::string_view text);
// Shortest digits that read back as the value, in Python's layout: "1.0", "1e-05", "inf".
std::string FormatFloat(double value);
std::string FormatInt(Int value);

// `format % arguments`: a tuple's items, a dict by name, or one value.
Value FormatPercent(Runtime& runtime, const Value& format, const Value& arguments);
// format.format(...)
Value FormatBraces(Runtime& runtime, const Value& format, const Arguments& arguments);
// format(value, spec): "{:>8.2f}".
std::string FormatWithSpec(Runtime& runtime, const Value& value, std::string_view spec);

// "&", "<", ">", quotes as HTML entities.
std::string EscapeHtml(std::string_view text);
// The value as markup: escaped, unless it is markup already.
Value Escape(Runtime& runtime, const Value& value);

// What json.dumps(value, ensure_ascii=..., indent=..., separators=..., sort_keys=...) gives. Fails for what
// JSON cannot hold.
struct JsonStyle {
  bool ensure_ascii = false;
  bool pretty = false;
  std::string indent;  // one level's, where pretty
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
std::string ToJson(Runtime& runtime, const Value& value, const JsonStyle& style);

}  // namespace lamina::jinja
