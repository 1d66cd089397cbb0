#include "text/jinja/unicode.h"

#include <unicode/ucasemap.h>
#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <memory>

namespace lamina::jinja {

namespace {

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

char AsciiUpper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }
char AsciiLower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

struct CaseMapDeleter {
  void operator()(UCaseMap* map) const { ucasemap_close(map); }
};

// Runs one of ICU's mappings in the root locale; the text itself where ICU refuses.
template <typename Mapping>
std::string MapCase(std::string_view text, uint32_t options, Mapping mapping) {
  UErrorCode error = U_ZERO_ERROR;
  const std::unique_ptr<UCaseMap, CaseMapDeleter> map(ucasemap_open("", options, &error));
  if (U_FAILURE(error)) return std::string(text);
  std::string result(text.size() + 16, '\0');
  for (;;) {
    error = U_ZERO_ERROR;
    const int32_t size = mapping(map.get(), result.data(), static_cast<int32_t>(result.size()), text.data(),
                                 static_cast<int32_t>(text.size()), &error);
    const bool too_small = error == U_BUFFER_OVERFLOW_ERROR;
    if (!too_small && U_FAILURE(error)) return std::string(text);
    result.resize(static_cast<size_t>(size));
    if (!too_small) return result;
  }
}

void AppendMapped(char32_t code_point, std::string (*mapping)(std::string_view), std::string* out) {
  std::string one;
  AppendCodePoint(code_point, &one);
  *out += mapping(one);
}

std::string TitleOne(std::string_view character) {
  if (IsAscii(character)) return ToUpper(character);
  return MapCase(character, U_TITLECASE_WHOLE_STRING | U_TITLECASE_NO_BREAK_ADJUSTMENT,
                 [](UCaseMap* map, char* out, int32_t capacity, const char* in, int32_t size,
                    UErrorCode* error) { return ucasemap_utf8ToTitle(map, out, capacity, in, size, error); });
}

bool HasType(char32_t c, uint32_t mask) { return (U_MASK(u_charType(static_cast<UChar32>(c))) & mask) != 0; }

}  // namespace

size_t CountCodePoints(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

char32_t NextCodePoint(std::string_view text, size_t* position) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  UChar32 code_point = 0;
  U8_NEXT_OR_FFFD(bytes, *position, text.size(), code_point);
  return static_cast<char32_t>(code_point);
}

size_t ByteOffset(std::string_view text, size_t index) {
  size_t offset = 0;
  for (; offset < text.size(); ++offset) {
    if ((static_cast<unsigned char>(text[offset]) & 0xc0) == 0x80) continue;
    if (index == 0) return offset;
    --index;
  }
  return offset;
}

void AppendCodePoint(char32_t code_point, std::string* text) {
  char buffer[U8_MAX_LENGTH];
  int32_t size = 0;
  U8_APPEND_UNSAFE(buffer, size, static_cast<UChar32>(code_point));
  text->append(buffer, static_cast<size_t>(size));
}

bool IsValidUtf8(std::string_view bytes) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  for (size_t i = 0; i < bytes.size();) {
    UChar32 code_point = 0;
    U8_NEXT(data, i, bytes.size(), code_point);
    if (code_point < 0) return false;
  }
  return true;
}

std::string ToValidUtf8(std::string_view bytes) {
  if (IsValidUtf8(bytes)) return std::string(bytes);
  std::string text;
  for (size_t i = 0; i < bytes.size();) AppendCodePoint(NextCodePoint(bytes, &i), &text);
  return text;
}

bool IsSpace(char32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool IsLineBreak(char32_t c) {
  return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool IsPrintable(char32_t c) {
  return c == ' ' || !HasType(c, U_GC_C_MASK | U_GC_ZL_MASK | U_GC_ZP_MASK | U_GC_ZS_MASK);
}

bool IsAlphabetic(char32_t c) { return HasType(c, U_GC_L_MASK); }
bool IsDecimal(char32_t c) { return HasType(c, U_GC_ND_MASK); }
bool IsDigit(char32_t c) {
  const int32_t type = u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_NUMERIC_TYPE);
  return type == U_NT_DECIMAL || type == U_NT_DIGIT;
}
bool IsNumeric(char32_t c) {
  return u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_NUMERIC_TYPE) != U_NT_NONE;
}
int DecimalValue(char32_t c) { return IsDecimal(c) ? u_charDigitValue(static_cast<UChar32>(c)) : -1; }
bool IsUpper(char32_t c) { return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_UPPERCASE) != 0; }
bool IsLower(char32_t c) { return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_LOWERCASE) != 0; }
bool IsTitle(char32_t c) { return HasType(c, U_GC_LT_MASK); }
bool IsIdentifierStart(char32_t c) {
  return c == '_' || u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_XID_START) != 0;
}
bool IsIdentifierPart(char32_t c) {
  return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_XID_CONTINUE) != 0;
}

std::string ToUpper(std::string_view text) {
  if (IsAscii(text)) {
    std::string result(text);
    std::transform(result.begin(), result.end(), result.begin(), AsciiUpper);
    return result;
  }
  return MapCase(text, 0,
                 [](UCaseMap* map, char* out, int32_t capacity, const char* in, int32_t size,
                    UErrorCode* error) { return ucasemap_utf8ToUpper(map, out, capacity, in, size, error); });
}

std::string ToLower(std::string_view text) {
  if (IsAscii(text)) {
    std::string result(text);
    std::transform(result.begin(), result.end(), result.begin(), AsciiLower);
    return result;
  }
  return MapCase(text, 0,
                 [](UCaseMap* map, char* out, int32_t capacity, const char* in, int32_t size,
                    UErrorCode* error) { return ucasemap_utf8ToLower(map, out, capacity, in, size, error); });
}

std::string FoldCase(std::string_view text) {
  if (IsAscii(text)) return ToLower(text);
  return MapCase(
      text, U_FOLD_CASE_DEFAULT,
      [](UCaseMap* map, char* out, int32_t capacity, const char* in, int32_t size, UErrorCode* error) {
        return ucasemap_utf8FoldCase(map, out, capacity, in, size, error);
      });
}

std::string ToTitle(std::string_view text) {
  std::string result;
  bool after_cased = false;
  for (size_t i = 0; i < text.size();) {
    const char32_t c = NextCodePoint(text, &i);
    AppendMapped(c, after_cased ? ToLower : TitleOne, &result);
    after_cased = IsCased(c);
  }
  return result;
}

std::string Capitalize(std::string_view text) {
  if (text.empty()) return {};
  size_t rest = 0;
  NextCodePoint(text, &rest);
  // The rest is mapped within the whole, where a final sigma knows what it follows.
  const std::string first_lower = ToLower(text.substr(0, rest));
  const std::string whole_lower = ToLower(text);
  return TitleOne(text.substr(0, rest)) +
         whole_lower.substr(std::min(first_lower.size(), whole_lower.size()));
}

std::string SwapCase(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size();) {
    const char32_t c = NextCodePoint(text, &i);
    if (IsUpper(c)) {
      AppendMapped(c, ToLower, &result);
    } else if (IsLower(c)) {
      AppendMapped(c, ToUpper, &result);
    } else {
      AppendCodePoint(c, &result);
    }
  }
  return result;
}

std::string_view StripSpace(std::string_view text, bool left, bool right) {
  size_t begin = 0;
  while (left && begin < text.size()) {
    size_t next = begin;
    if (!IsSpace(NextCodePoint(text, &next))) break;
    begin = next;
  }
  size_t end = text.size();
  while (right && end > begin) {
    size_t last = end - 1;
    while (last > begin && (static_cast<unsigned char>(text[last]) & 0xc0) == 0x80) --last;
    size_t next = last;
    if (!IsSpace(NextCodePoint(text, &next))) break;
    end = last;
  }
  return text.substr(begin, end - begin);
}

bool AllSpace(std::string_view text) { return StripSpace(text).empty(); }

}  // namespace lamina::jinja
