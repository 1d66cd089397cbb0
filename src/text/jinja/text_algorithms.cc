#include "text/jinja/text_algorithms.h"

#include <algorithm>

#include "text/jinja/unicode.h"

namespace lamina::jinja {

namespace {

// The byte where the character that ends at `end` starts.
size_t PreviousCharacter(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

bool SpaceAt(std::string_view text, size_t at) { return IsSpace(NextCodePoint(text, &at)); }

size_t NextCharacter(std::string_view text, size_t at) {
  NextCodePoint(text, &at);
  return at;
}

std::vector<std::string_view> SplitAtSpaceFromLeft(std::string_view text, Int max_splits) {
  std::vector<std::string_view> parts;
  std::string_view rest = StripSpace(text, true, false);
  while (!rest.empty()) {
    if (max_splits >= 0 && static_cast<Int>(parts.size()) == max_splits) {
      parts.push_back(rest);
      break;
    }
    size_t end = 0;
    while (end < rest.size() && !SpaceAt(rest, end)) end = NextCharacter(rest, end);
    parts.push_back(rest.substr(0, end));
    rest = StripSpace(rest.substr(end), true, false);
  }
  return parts;
}

std::vector<std::string_view> SplitAtSpaceFromRight(std::string_view text, Int max_splits) {
  std::vector<std::string_view> parts;
  std::string_view rest = StripSpace(text, false, true);
  while (!rest.empty()) {
    if (max_splits >= 0 && static_cast<Int>(parts.size()) == max_splits) {
      parts.push_back(rest);
      break;
    }
    size_t begin = rest.size();
    while (begin > 0 && !SpaceAt(rest, PreviousCharacter(rest, begin)))
      begin = PreviousCharacter(rest, begin);
    parts.push_back(rest.substr(begin));
    rest = StripSpace(rest.substr(0, begin), false, true);
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace

std::vector<std::string_view> SplitAtSpace(std::string_view text, Int max_splits, bool from_right) {
  return from_right ? SplitAtSpaceFromRight(text, max_splits) : SplitAtSpaceFromLeft(text, max_splits);
}

std::vector<std::string_view> SplitAt(std::string_view text, std::string_view separator, Int max_splits,
                                      bool from_right) {
  std::vector<std::string_view> parts;
  const auto may_split = [&] { return max_splits < 0 || static_cast<Int>(parts.size()) < max_splits; };
  if (from_right) {
    while (may_split()) {
      const size_t at = text.rfind(separator);
      if (at == std::string_view::npos) break;
      parts.push_back(text.substr(at + separator.size()));
      text = text.substr(0, at);
    }
    parts.push_back(text);
    std::reverse(parts.begin(), parts.end());
    return parts;
  }
  while (may_split()) {
    const size_t at = text.find(separator);
    if (at == std::string_view::npos) break;
    parts.push_back(text.substr(0, at));
    text.remove_prefix(at + separator.size());
  }
  parts.push_back(text);
  return parts;
}

std::vector<std::string_view> SplitLines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t start = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t at = i;
    const char32_t c = NextCodePoint(text, &i);
    if (!IsLineBreak(c)) continue;
    if (c == '\r' && i < text.size() && text[i] == '\n') ++i;
    lines.push_back(text.substr(start, (keep_ends ? i : at) - start));
    start = i;
  }
  if (start < text.size()) lines.push_back(text.substr(start));
  return lines;
}

Value MakeTextList(Runtime& runtime, const Value& like, const std::vector<std::string_view>& parts) {
  std::vector<Value> items;
  if (!runtime.Reserve(parts.size() * (sizeof(Value) + sizeof(String)))) return Value();
  items.reserve(parts.size());
  for (const std::string_view part : parts) {
    items.push_back(runtime.MakeStringLike(like, std::string(part)));
    if (runtime.failed()) return Value();
  }
  return runtime.MakeList(std::move(items));
}

std::string_view StripCharacters(std::string_view text, std::string_view characters, bool left, bool right) {
  std::u32string set;
  for (size_t i = 0; i < characters.size();) set += NextCodePoint(characters, &i);
  const auto in_set = [&](size_t at) { return set.find(NextCodePoint(text, &at)) != std::u32string::npos; };
  size_t begin = 0;
  while (left && begin < text.size() && in_set(begin)) begin = NextCharacter(text, begin);
  size_t end = text.size();
  while (right && end > begin && in_set(PreviousCharacter(text, end))) end = PreviousCharacter(text, end);
  return text.substr(begin, end - begin);
}

bool EndsWith(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

std::string ReplaceText(Runtime& runtime, std::string_view text, std::string_view old_text,
                        std::string_view new_text, Int count) {
  if (!runtime.ChargeBytes(text.size())) return {};
  TextBuilder out(runtime);
  const auto may_replace = [&] { return count < 0 || count-- > 0; };
  size_t at = 0;
  if (old_text.empty()) {
    // Before every character and at the end.
    while (may_replace()) {
      out.Append(new_text);
      if (at >= text.size()) return out.Take();
      const size_t next = NextCharacter(text, at);
      out.Append(text.substr(at, next - at));
      at = next;
    }
    out.Append(text.substr(at));
    return out.Take();
  }
  for (size_t found = text.find(old_text); found != std::string_view::npos && may_replace();
       found = text.find(old_text, at)) {
    out.Append(text.substr(at, found - at));
    out.Append(new_text);
    at = found + old_text.size();
  }
  out.Append(text.substr(at));
  return out.Take();
}

bool IsLowerText(std::string_view text) {
  bool any = false;
  for (size_t i = 0; i < text.size();) {
    const char32_t c = NextCodePoint(text, &i);
    if (IsUpper(c) || IsTitle(c)) return false;
    any = any || IsLower(c);
  }
  return any;
}

bool IsUpperText(std::string_view text) {
  bool any = false;
  for (size_t i = 0; i < text.size();) {
    const char32_t c = NextCodePoint(text, &i);
    if (IsLower(c) || IsTitle(c)) return false;
    any = any || IsUpper(c);
  }
  return any;
}

bool IsTitleText(std::string_view text) {
  bool any = false;
  bool after_cased = false;
  for (size_t i = 0; i < text.size();) {
    const char32_t c = NextCodePoint(text, &i);
    if (IsUpper(c) || IsTitle(c)) {
      if (after_cased) return false;
      after_cased = any = true;
    } else if (IsLower(c)) {
      if (!after_cased) return false;
      any = true;
    } else {
      after_cased = false;
    }
  }
  return any;
}

bool IsIdentifier(std::string_view text) {
  if (text.empty()) return false;
  size_t i = 0;
  if (!IsIdentifierStart(NextCodePoint(text, &i))) return false;
  while (i < text.size()) {
    if (!IsIdentifierPart(NextCodePoint(text, &i))) return false;
  }
  return true;
}

}  // namespace lamina::jinja
