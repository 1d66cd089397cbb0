// The filter pprint: a value over as many lines as it needs, as Python's pprint.pformat writes it.
#include <algorithm>
#include <string>
#include <vector>

#include "text/jinja/arguments.h"
#include "text/jinja/filter_support.h"
#include "text/jinja/filters.h"
#include "text/jinja/format.h"
#include "text/jinja/operators.h"
#include "text/jinja/text_algorithms.h"
#include "text/jinja/unicode.h"

namespace lamina::jinja {

namespace {

constexpr int kWidth = 80;

// Columns are counted in characters and may become negative deep inside a value.
class PrettyPrinter {
 public:
  explicit PrettyPrinter(Runtime& runtime) : runtime_(runtime), out_(runtime) {}

  Value Print(const Value& value) {
    Format(value, 0, 0, 0);
    return runtime_.failed() ? Value() : runtime_.MakeString(out_.Take());
  }

 private:
  static int Columns(std::string_view text) { return static_cast<int>(CountCodePoints(text)); }

  // `indent`: the column the value starts in; `allowance`: columns that must stay free behind it.
  void Format(const Value& value, int indent, int allowance, int level) {
    const DepthGuard guard(runtime_);
    if (!guard.ok() || !runtime_.Charge()) return;
    const std::string plain = OneLine(value);
    if (Columns(plain) <= kWidth - indent - allowance) return out_.Append(plain);
    if (value.is(Kind::kDict)) return FormatDict(value, indent, allowance + 1, level + 1);
    if (value.is(Kind::kList)) {
      out_.Append('[');
      FormatItems(value.items(), indent, allowance + 1, level + 1);
      return out_.Append(']');
    }
    if (value.is(Kind::kTuple)) {
      const std::string_view end = value.items().size() == 1 ? ",)" : ")";
      out_.Append('(');
      FormatItems(value.items(), indent, allowance + static_cast<int>(end.size()), level + 1);
      return out_.Append(end);
    }
    if (value.is_string() && !value.string().markup)
      return FormatString(value.text(), indent, allowance, level + 1);
    out_.Append(plain);
  }

  // repr(value) with the keys of dicts in order.
  std::string OneLine(const Value& value) {
    const DepthGuard guard(runtime_);
    if (!guard.ok() || !runtime_.Charge()) return "";
    if (value.is(Kind::kDict)) {
      TextBuilder text(runtime_);
      text.Append('{');
      for (const Dict::Entry* entry : SortedEntries(value.dict())) {
        if (text.text().size() > 1) text.Append(", ");
        text.Append(OneLine(entry->key));
        text.Append(": ");
        text.Append(OneLine(entry->value));
      }
      text.Append('}');
      return text.Take();
    }
    if (value.is_sequence()) {
      TextBuilder text(runtime_);
      text.Append(value.is(Kind::kList) ? '[' : '(');
      bool first = true;
      for (const Value& item : value.items()) {
        if (!first) text.Append(", ");
        first = false;
        text.Append(OneLine(item));
      }
      if (value.is(Kind::kTuple) && value.items().size() == 1) text.Append(',');
      text.Append(value.is(Kind::kList) ? ']' : ')');
      return text.Take();
    }
    return Repr(runtime_, value);
  }

  std::vector<const Dict::Entry*> SortedEntries(const Dict& dict) {
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries) {
      const Dict::Entry& first = dict.entries.front();
      if (entry.key.is_string() != first.key.is_string() || entry.key.is_number() != first.key.is_number() ||
          (!entry.key.is_string() && !entry.key.is_number() && dict.entries.size() > 1)) {
        runtime_.FailUnsupported("pprint() of a dict whose keys have no order is not supported");
        return {};
      }
      entries.push_back(&entry);
    }
    std::stable_sort(entries.begin(), entries.end(), [&](const Dict::Entry* a, const Dict::Entry* b) {
      return !runtime_.failed() && Less(runtime_, a->key, b->key);
    });
    return entries;
  }

  void NewLine(int indent) {
    out_.Append('\n');
    out_.Repeat(" ", indent);
  }

  void FormatDict(const Value& value, int indent, int allowance, int level) {
    const std::vector<const Dict::Entry*> entries = SortedEntries(value.dict());
    out_.Append('{');
    for (size_t i = 0; i < entries.size() && !runtime_.failed(); ++i) {
      const bool last = i + 1 == entries.size();
      const std::string key = OneLine(entries[i]->key);
      if (i > 0) {
        out_.Append(',');
        NewLine(indent + 1);
      }
      out_.Append(key);
      out_.Append(": ");
      Format(entries[i]->value, indent + 1 + Columns(key) + 2, last ? allowance : 1, level);
    }
    out_.Append('}');
  }

  void FormatItems(const std::vector<Value>& items, int indent, int allowance, int level) {
    for (size_t i = 0; i < items.size() && !runtime_.failed(); ++i) {
      if (i > 0) {
        out_.Append(',');
        NewLine(indent + 1);
      }
      Format(items[i], indent + 1, i + 1 == items.size() ? allowance : 1, level);
    }
  }

  // A long string as several literals; the outermost gets brackets around them.
  void FormatString(const std::string& text, int indent, int allowance, int level) {
    if (level == 1) {
      ++indent;
      ++allowance;
    }
    std::vector<std::string> literals;
    const std::vector<std::string_view> lines = SplitLines(text, true);
    for (size_t i = 0; i < lines.size(); ++i) {
      const bool last_line = i + 1 == lines.size();
      std::string literal = QuoteText(lines[i]);
      if (Columns(literal) <= kWidth - indent - (last_line ? allowance : 0)) {
        literals.push_back(std::move(literal));
        continue;
      }
      std::string current;
      const std::vector<std::string_view> words = WordsWithSpace(lines[i]);
      for (size_t k = 0; k < words.size() && runtime_.ChargeBytes(current.size()); ++k) {
        const bool last = last_line && k + 1 == words.size();
        const std::string candidate = current + std::string(words[k]);
        if (Columns(QuoteText(candidate)) > kWidth - indent - (last ? allowance : 0)) {
          if (!current.empty()) literals.push_back(QuoteText(current));
          current = words[k];
        } else {
          current = candidate;
        }
      }
      if (!current.empty()) literals.push_back(QuoteText(current));
    }
    const bool brackets = level == 1 && literals.size() > 1;
    if (brackets) out_.Append('(');
    for (size_t i = 0; i < literals.size(); ++i) {
      if (i > 0) NewLine(indent);
      out_.Append(literals[i]);
    }
    if (brackets) out_.Append(')');
  }

  // Each word with the white space behind it.
  static std::vector<std::string_view> WordsWithSpace(std::string_view line) {
    std::vector<std::string_view> words;
    for (size_t begin = 0; begin < line.size();) {
      size_t end = begin;
      bool in_space = false;
      while (end < line.size()) {
        size_t next = end;
        const bool space = IsSpace(NextCodePoint(line, &next));
        if (in_space && !space) break;
        in_space = space;
        end = next;
      }
      words.push_back(line.substr(begin, end - begin));
      begin = end;
    }
    return words;
  }

  Runtime& runtime_;
  TextBuilder out_;
};

}  // namespace

Value PrettyPrint(Runtime& runtime, const Value& value, const Arguments& args) {
  if (!CheckPositional(runtime, "pprint", args, 0, 0)) return Value();
  return PrettyPrinter(runtime).Print(value);
}

}  // namespace lamina::jinja
