#include <algorithm>
#include <cmath>

#include "text/jinja/format.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace lamina::jinja {

namespace {

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonStyle& style) : runtime_(runtime), style_(style), out_(runtime) {}

  std::string Write(const Value& value) {
    Append(value);
    return out_.Take();
  }

 private:
  void Append(const Value& value) {
    const DepthGuard guard(runtime_);
    if (!guard.ok() || !runtime_.Charge()) return;
    switch (value.kind()) {
      case Kind::kNone:
        return out_.Append("null");
      case Kind::kBool:
        return out_.Append(value.boolean() ? "true" : "false");
      case Kind::kInt:
        return out_.Append(FormatInt(value.integer()));
      case Kind::kFloat:
        return out_.Append(Number(value.real()));
      case Kind::kString:
        return AppendString(value.text());
      case Kind::kList:
      case Kind::kTuple:
        return AppendItems('[', ']', value.items(), [this](const Value& item) { Append(item); });
      case Kind::kDict:
        return AppendDict(value.dict());
      default:
        runtime_.Fail("Object of type {} is not JSON serializable", TypeName(value));
    }
  }

  static std::string Number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return FormatFloat(value);
  }

  void AppendDict(const Dict& dict) {
    std::vector<const Dict::Entry*> entries;
    entries.reserve(dict.entries.size());
    for (const Dict::Entry& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) {
      // Keys of one kind only have an order; that is checked first so that the sort sees a consistent one.
      for (const Dict::Entry* entry : entries) Less(runtime_, entry->key, entries.front()->key);
      if (runtime_.failed()) return;
      std::stable_sort(entries.begin(), entries.end(), [this](const Dict::Entry* a, const Dict::Entry* b) {
        return Less(runtime_, a->key, b->key);
      });
    }
    AppendItems('{', '}', entries, [this](const Dict::Entry* entry) {
      AppendKey(entry->key);
      out_.Append(style_.key_separator);
      Append(entry->value);
    });
  }

  void AppendKey(const Value& key) {
    switch (key.kind()) {
      case Kind::kString:
        return AppendString(key.text());
      case Kind::kNone:
      case Kind::kBool:
      case Kind::kInt:
      case Kind::kFloat:
        out_.Append('"');
        Append(key);
        return out_.Append('"');
      default:
        runtime_.Fail("keys must be str, int, float, bool or None, not {}", TypeName(key));
    }
  }

  template <typename Items, typename AppendItem>
  void AppendItems(char open, char close, const Items& items, AppendItem append_item) {
    out_.Append(open);
    ++level_;
    bool first = true;
    for (const auto& item : items) {
      if (runtime_.failed()) return;
      if (!first) out_.Append(style_.item_separator);
      first = false;
      AppendNewline();
      append_item(item);
    }
    --level_;
    if (!items.empty()) AppendNewline();
    out_.Append(close);
  }

  void AppendNewline() {
    if (!style_.pretty) return;
    out_.Append('\n');
    out_.Repeat(style_.indent, level_);
  }

  void AppendString(std::string_view text) {
    if (!runtime_.ChargeBytes(text.size())) return;
    out_.Append('"');
    for (size_t i = 0; i < text.size();) {
      const size_t start = i;
      const char32_t c = NextCodePoint(text, &i);
      if (const char escape = ShortEscape(c)) {
        out_.Append('\\');
        out_.Append(escape);
      } else if (c < 0x20) {
        AppendUnicodeEscape(c);
      } else if (c < 0x80 || !style_.ensure_ascii) {
        out_.Append(text.substr(start, i - start));
      } else if (c < 0x10000) {
        AppendUnicodeEscape(c);
      } else {
        AppendUnicodeEscape(0xd800 + ((c - 0x10000) >> 10));
        AppendUnicodeEscape(0xdc00 + ((c - 0x10000) & 0x3ff));
      }
    }
    out_.Append('"');
  }

  static char ShortEscape(char32_t c) {
    switch (c) {
      case '"':
        return '"';
      case '\\':
        return '\\';
      case '\n':
        return 'n';
      case '\r':
        return 'r';
      case '\t':
        return 't';
      case '\f':
        return 'f';
      case '\b':
        return 'b';
      default:
        return 0;
    }
  }

  void AppendUnicodeEscape(char32_t unit) {
    out_.Append(fmt::format("\\u{:04x}", static_cast<uint32_t>(unit)));
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  TextBuilder out_;
  Int level_ = 0;
};

}  // namespace

std::string ToJson(Runtime& runtime, const Value& value, const JsonStyle& style) {
  return JsonWriter(runtime, style).Write(value);
}

}  // namespace lamina::jinja
