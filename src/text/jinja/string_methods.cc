// Methods of str.
#include <algorithm>
#include <array>
#include <limits>

#include "text/jinja/arguments.h"
#include "text/jinja/attributes.h"
#include "text/jinja/format.h"
#include "text/jinja/iterators.h"
#include "text/jinja/operators.h"
#include "text/jinja/text_algorithms.h"
#include "text/jinja/unicode.h"

namespace lamina::jinja {

namespace {

using Args = Arguments;

// A string argument; fails naming the method.
const std::string* TextArgument(Runtime& runtime, std::string_view method, const Value& value) {
  if (value.is_string()) return &value.text();
  if (value.is_undefined() && value.undefined().unsafe) {
    runtime.FailUndefined(value);
  } else {
    runtime.Fail("{}() argument must be str, not {}", method, TypeName(value));
  }
  return nullptr;
}

// --- Case and padding.

template <std::string (*Mapping)(std::string_view)>
Value MapText(Runtime& runtime, const Value& self, const Args& args) {
  if (!CheckPositional(runtime, "str method", args, 0, 0)) return Value();
  // A mapping can grow text, the title case of a ligature for example.
  if (!runtime.Charge(1 + self.text().size() / 8) || !runtime.Reserve(3 * self.text().size())) return Value();
  return runtime.MakeStringLike(self, Mapping(self.text()));
}

enum class Side { kLeft, kRight, kBoth };

template <Side kSide>
Value Justify(Runtime& runtime, const Value& self, const Args& args) {
  if (!CheckPositional(runtime, "str method", args, 1, 2)) return Value();
  const auto width = ToIndex(runtime, args.positional[0], "width");
  if (!width) return Value();
  std::string fill = " ";
  if (args.positional.size() == 2) {
    const Value& given = args.positional[1];
    if (!given.is_string() || given.string().length != 1) {
      return runtime.Fail("The fill character must be exactly one character long");
    }
    fill = given.text();
  }
  TextBuilder out(runtime);
  const Int missing = std::max(Int{0}, *width - static_cast<Int>(self.string().length));
  const Int left = kSide == Side::kRight  ? missing
                   : kSide == Side::kLeft ? 0
                                          : missing / 2 + (missing & *width & 1);
  out.Repeat(fill, left);
  out.Append(self.text());
  out.Repeat(fill, missing - left);
  return runtime.MakeStringLike(self, out.Take());
}

Value ZeroFill(Runtime& runtime, const Value& self, const Args& args) {
  if (!CheckPositional(runtime, "zfill", args, 1, 1)) return Value();
  const auto width = ToIndex(runtime, args.positional[0], "width");
  if (!width) return Value();
  std::string_view text = self.text();
  TextBuilder out(runtime);
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) {
    out.Append(text[0]);
    text.remove_prefix(1);
  }
  out.Repeat("0", *width - static_cast<Int>(self.string().length));
  out.Append(text);
  return runtime.MakeStringLike(self, out.Take());
}

Value ExpandTabs(Runtime& runtime, const Value& self, const Args& args) {
  const auto [size] = BindArguments<1>(runtime, "expandtabs", args, {"tabsize"}, 0);
  if (runtime.failed()) return Value();
  const auto tab = size.missing() ? Int{8} : ToIndex(runtime, size, "tabsize");
  if (!tab) return Value();
  TextBuilder out(runtime);
  Int column = 0;
  const std::string& text = self.text();
  for (size_t i = 0; i < text.size();) {
    const size_t start = i;
    const char32_t c = NextCodePoint(text, &i);
    if (c == '\t') {
      const Int spaces = *tab > 0 ? *tab - column % *tab : 0;
      out.Repeat(" ", spaces);
      column += spaces;
    } else {
      out.Append(std::string_view(text).substr(start, i - start));
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
    if (runtime.failed()) return Value();
  }
  return runtime.MakeStringLike(self, out.Take());
}

// --- Stripping and parts.

template <Side kSide>
Value Strip(Runtime& runtime, const Value& self, const Args& args) {
  if (!CheckPositional(runtime, "strip", args, 0, 1) || !runtime.ChargeBytes(self.text().size()))
    return Value();
  constexpr bool kAtLeft = kSide != Side::kRight;
  constexpr bool kAtRight = kSide != Side::kLeft;
  std::string_view text = self.text();
  if (args.positional.empty() || args.positional[0].is_none()) {
    return runtime.MakeStringLike(self, std::string(StripSpace(text, kAtLeft, kAtRight)));
  }
  const std::string* characters = TextArgument(runtime, "strip", args.positional[0]);
  if (characters == nullptr) return Value();
  return runtime.MakeStringLike(self, std::string(StripCharacters(text, *characters, kAtLeft, kAtRight)));
}

Value RemovePrefix(Runtime& runtime, const Value& self, const Args& args) {
  if (!CheckPositional(runtime, "removeprefix", args, 1, 1)) return Value();
  const std::string* prefix = TextArgument(runtime, "removeprefix", args.positional[0]);
  if (prefix == nullptr) return Value();
  std::string_view text = self.text();
  if (text.substr(0, prefix->size()) == *prefix) text.remove_prefix(prefix->size());
  return runtime.MakeStringLike(self, std::string(text));
}

Value RemoveSuffix(Runtime& runtime, const Value& self, const Args& args) {
  if (!CheckPositional(runtime, "removesuffix", args, 1, 1)) return Value();
  const std::string* suffix = TextArgument(runtime, "removesuffix", args.positional[0]);
  if (suffix == nullptr) return Value();
  std::string_view text = self.text();
  if (EndsWith(text, *suffix)) text.remove_suffix(suffix->size());
  return runtime.MakeStringLike(self, std::string(text));
}

template <bool kFromRight>
Value Split(Runtime& runtime, const Value& self, const Args& args) {
  const auto [separator, limit] =
      BindArguments<2>(runtime, kFromRight ? "rsplit" : "split", args, {"sep", "maxsplit"}, 0);
  if (runtime.failed() || !runtime.ChargeBytes(self.text().size())) return Value();
  const auto max_splits = limit.missing() ? Int{-1} : ToIndex(runtime, limit, "maxsplit");
  if (!max_splits) return Value();
  std::vector<std::string_view> parts;
  if (separator.missing() || separator.is_none()) {
    parts = SplitAtSpace(self.text(), *max_splits, kFromRight);
  } else {
    const std::string* text = TextArgument(runtime, "split", separator);
    if (text == nullptr) return Value();
    if (text->empty()) return runtime.Fail("empty separator");
    parts = SplitAt(self.text(), *text, *max_splits, kFromRight);
  }
  return MakeTextList(runtime, self, parts);
}

Value SplitLinesMethod(Runtime& runtime, const Value& self, const Args& args) {
  const auto [keep] = BindArguments<1>(runtime, "splitlines", args, {"keepends"}, 0);
  if (runtime.failed() || !runtime.ChargeBytes(self.text().size())) return Value();
  return MakeTextList(runtime, self, SplitLines(self.text(), !keep.missing() && Truthy(runtime, keep)));
}

template <bool kFromRight>
Value Partition(Runtime& runtime, const Value& self, const Args& args) {
  if (!CheckPositional(runtime, "partition", args, 1, 1)) return Value();
  const std::string* separator = TextArgument(runtime, "partition", args.positional[0]);
  if (separator == nullptr) return Value();
  if (separator->empty()) return runtime.Fail("empty separator");
  const std::string& text = self.text();
  const size_t at = kFromRight ? text.rfind(*separator) : text.find(*separator);
  std::array<std::string, 3> parts;
  if (at == std::string::npos) {
    parts[kFromRight ? 2 : 0] = text;
  } else {
    parts = {text.substr(0, at), *separator, text.substr(at + separator->size())};
  }
  std::vector<Value> values;
  for (std::string& part : parts) values.push_back(runtime.MakeStringLike(self, std::move(part)));
  return runtime.MakeTuple(std::move(values));
}

Value Join(Runtime& runtime, const Value& self, const Args& args) {
  if (!CheckPositional(runtime, "join", args, 1, 1)) return Value();
  TextBuilder out(runtime);
  size_t index = 0;
  const bool markup = self.string().markup;
  ForEach(runtime, args.positional[0], [&](const Value& item) {
    if (!item.is_string() && !markup) {
      runtime.Fail("sequence item {}: expected str instance, {} found", index, TypeName(item));
      return;
    }
    if (index++ > 0) out.Append(self.text());
    const Value part = markup ? Escape(runtime, item) : item;
    if (part.is_string()) out.Append(part.text());
  });
  return runtime.MakeStringLike(self, out.Take());
}

// --- Searching. Positions count code points.

struct Window {
  bool valid = false;  // start lies inside the text
  size_t offset = 0;   // byte of the start
  std::string_view text;
};

// The part of the text that arguments `first` and `first + 1` (start, end) select.
Window SearchWindow(Runtime& runtime, const Value& self, const Args& args, size_t first) {
  const auto length = static_cast<Int>(self.string().length);
  std::array<Int, 2> bounds = {0, length};
  for (size_t i = 0; i < 2; ++i) {
    if (args.positional.size() <= first + i || args.positional[first + i].is_none()) continue;
    const auto bound = ToIndex(runtime, args.positional[first + i], "slice index");
    if (!bound) return {};
    bounds[i] = *bound < 0 ? std::max(Int{0}, *bound + length) : *bound;
  }
  if (bounds[0] > length) return {};
  bounds[1] = std::min(bounds[1], length);
  Window window;
  if (bounds[0] > bounds[1]) return window;
  const std::string_view text = self.text();
  const auto offset_of = [&](Int index) {
    return self.string().ascii() ? static_cast<size_t>(index) : ByteOffset(text, static_cast<size_t>(index));
  };
  window.valid = true;
  window.offset = offset_of(bounds[0]);
  window.text = text.substr(window.offset, offset_of(bounds[1]) - window.offset);
  return window;
}

template <bool kFromRight, bool kMustExist>
Value Find(Runtime& runtime, const Value& self, const Args& args) {
  if (!CheckPositional(runtime, kMustExist ? "index" : "find", args, 1, 3)) return Value();
  const std::string* part = TextArgument(runtime, kMustExist ? "index" : "find", args.positional[0]);
  if (part == nullptr || !runtime.ChargeBytes(self.text().size())) return Value();
  const Window window = SearchWindow(runtime, self, args, 1);
  if (runtime.failed()) return Value();
  const size_t at = !window.valid ? std::string_view::npos
                    : kFromRight  ? window.text.rfind(*part)
                                  : window.text.find(*part);
  if (at != std::string_view::npos) {
    const std::string_view before = std::string_view(self.text()).substr(0, window.offset + at);
    return Value::Integer(static_cast<Int>(CountCodePoints(before)));
  }
  return kMustExist ? runtime.Fail("substring not found") : Value::Integer(-1);
}

Value Count(Runtime& runtime, const Value& self, const Args& args) {
  if (!CheckPositional(runtime, "count", args, 1, 3)) return Value();
  const std::string* part = TextArgument(runtime, "count", args.positional[0]);
  if (part == nullptr || !runtime.ChargeBytes(self.text().size())) return Value();
  const Window window = SearchWindow(runtime, self, args, 1);
  if (runtime.failed()) return Value();
  if (!window.valid) return Value::Integer(0);
  if (part->empty()) return Value::Integer(static_cast<Int>(CountCodePoints(window.text)) + 1);
  Int count = 0;
  for (size_t at = window.text.find(*part); at != std::string_view::npos;
       at = window.text.find(*part, at + part->size())) {
    ++count;
  }
  return Value::Integer(count);
}

template <bool kAtEnd>
Value HasAffix(Runtime& runtime, const Value& self, const Args& args) {
  const char* name = kAtEnd ? "endswith" : "startswith";
  if (!CheckPositional(runtime, name, args, 1, 3)) return Value();
  const Window window = SearchWindow(runtime, self, args, 1);
  if (runtime.failed()) return Value();
  const Value& choices = args.positional[0];
  const std::vector<Value> all = choices.is(Kind::kTuple) ? choices.items() : std::vector<Value>{choices};
  for (const Value& choice : all) {
    if (!choice.is_string()) {
      return runtime.Fail("{} first arg must be str or a tuple of str, not {}", name, TypeName(choice));
    }
    const std::string_view affix = choice.text();
    if (window.valid &&
        (kAtEnd ? EndsWith(window.text, affix) : window.text.substr(0, affix.size()) == affix)) {
      return Value::Bool(true);
    }
  }
  return Value::Bool(false);
}

Value Replace(Runtime& runtime, const Value& self, const Args& args) {
  if (!CheckPositional(runtime, "replace", args, 2, 3)) return Value();
  const std::string* old_text = TextArgument(runtime, "replace", args.positional[0]);
  if (old_text == nullptr) return Value();
  const std::string* new_text = TextArgument(runtime, "replace", args.positional[1]);
  if (new_text == nullptr) return Value();
  const auto count = args.positional.size() < 3 ? Int{-1} : ToIndex(runtime, args.positional[2], "count");
  if (!count) return Value();
  return runtime.MakeStringLike(self, ReplaceText(runtime, self.text(), *old_text, *new_text, *count));
}

// --- Questions about all characters.

template <bool (*Predicate)(char32_t), bool kEmpty>
Value All(Runtime& runtime, const Value& self, const Args& args) {
  if (!CheckPositional(runtime, "str method", args, 0, 0) || !runtime.ChargeBytes(self.text().size()))
    return Value();
  const std::string& text = self.text();
  if (text.empty()) return Value::Bool(kEmpty);
  for (size_t i = 0; i < text.size();) {
    if (!Predicate(NextCodePoint(text, &i))) return Value::Bool(false);
  }
  return Value::Bool(true);
}

bool IsAsciiCharacter(char32_t c) { return c < 0x80; }

template <bool (*Question)(std::string_view)>
Value Ask(Runtime& runtime, const Value& self, const Args& args) {
  if (!CheckPositional(runtime, "str method", args, 0, 0) || !runtime.ChargeBytes(self.text().size()))
    return Value();
  return Value::Bool(Question(self.text()));
}

// --- Formatting.

Value Format(Runtime& runtime, const Value& self, const Args& args) {
  return FormatBraces(runtime, self, args);
}

Value FormatMap(Runtime& runtime, const Value& self, const Args& args) {
  if (!CheckPositional(runtime, "format_map", args, 1, 1)) return Value();
  if (!args.positional[0].is(Kind::kDict)) return runtime.Fail("format_map() argument must be a dict");
  Arguments named;
  for (const Dict::Entry& entry : args.positional[0].dict().entries) {
    if (entry.key.is_string()) named.named.emplace_back(entry.key.text(), entry.value);
  }
  return FormatBraces(runtime, self, named);
}

Value NotSupported(Runtime& runtime, const Value& self, const Args& args) {
  static_cast<void>(self);
  static_cast<void>(args);
  return runtime.FailUnsupported("str methods encode, translate and maketrans are not supported");
}

constexpr std::array<MethodEntry, 47> kMethods = {{
    {"capitalize", MapText<Capitalize>},
    {"casefold", MapText<FoldCase>},
    {"center", Justify<Side::kBoth>},
    {"count", Count},
    {"encode", NotSupported},
    {"endswith", HasAffix<true>},
    {"expandtabs", ExpandTabs},
    {"find", Find<false, false>},
    {"format", Format},
    {"format_map", FormatMap},
    {"index", Find<false, true>},
    {"isalnum", All<IsAlphanumeric, false>},
    {"isalpha", All<IsAlphabetic, false>},
    {"isascii", All<IsAsciiCharacter, true>},
    {"isdecimal", All<IsDecimal, false>},
    {"isdigit", All<IsDigit, false>},
    {"isidentifier", Ask<IsIdentifier>},
    {"islower", Ask<IsLowerText>},
    {"isnumeric", All<IsNumeric, false>},
    {"isprintable", All<IsPrintable, true>},
    {"isspace", All<IsSpace, false>},
    {"istitle", Ask<IsTitleText>},
    {"isupper", Ask<IsUpperText>},
    {"join", Join},
    {"ljust", Justify<Side::kLeft>},
    {"lower", MapText<ToLower>},
    {"lstrip", Strip<Side::kLeft>},
    {"maketrans", NotSupported},
    {"partition", Partition<false>},
    {"removeprefix", RemovePrefix},
    {"removesuffix", RemoveSuffix},
    {"replace", Replace},
    {"rfind", Find<true, false>},
    {"rindex", Find<true, true>},
    {"rjust", Justify<Side::kRight>},
    {"rpartition", Partition<true>},
    {"rsplit", Split<true>},
    {"rstrip", Strip<Side::kRight>},
    {"split", Split<false>},
    {"splitlines", SplitLinesMethod},
    {"startswith", HasAffix<false>},
    {"strip", Strip<Side::kBoth>},
    {"swapcase", MapText<SwapCase>},
    {"title", MapText<ToTitle>},
    {"translate", NotSupported},
    {"upper", MapText<ToUpper>},
    {"zfill", ZeroFill},
}};

}  // namespace

Method FindStringMethod(std::string_view name) {
  const auto found = std::find_if(kMethods.begin(), kMethods.end(),
                                  [&](const MethodEntry& entry) { return entry.name == name; });
  return found == kMethods.end() ? nullptr : found->method;
}

}  // namespace lamina::jinja
