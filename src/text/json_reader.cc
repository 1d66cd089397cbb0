#include "text/json_reader.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

#include "base/error.h"
#include "text/json_number.h"
#include "text/utf8.h"

namespace lamina::text {
namespace {

constexpr int kMaxDepth = 128;

// Reads four hexadecimal digits at `pos`; -1 where there are none.
int32_t Hex4(std::string_view text, size_t pos) {
  if (pos + 4 > text.size()) return -1;
  int32_t value = 0;
  const char* first = text.data() + pos;
  const auto [end, error] = std::from_chars(first, first + 4, value, 16);
  return error == std::errc() && end == first + 4 && *first != '-' ? value : -1;
}

constexpr uint64_t kEachByte = 0x0101010101010101u;
constexpr uint64_t kHighBits = 0x8080808080808080u;

// The high bit of each byte of `block` that is below `limit` <= 0x80; bytes above the lowest such may be
// marked too.
constexpr uint64_t BytesBelow(uint64_t block, uint64_t limit) {
  return (block - kEachByte * limit) & ~block & kHighBits;
}

// Bytes of a string's text up to a quote, backslash or control character.
size_t OrdinaryBytes(std::string_view text) {
  size_t pos = 0;
  for (uint64_t block = 0; pos + sizeof(block) <= text.size(); pos += sizeof(block)) {
    std::memcpy(&block, text.data() + pos, sizeof(block));
    const uint64_t marked = BytesBelow(block ^ kEachByte * '"', 1) | BytesBelow(block ^ kEachByte * '\\', 1) |
                            BytesBelow(block, 0x20);
    if (marked != 0) return pos + static_cast<size_t>(std::countr_zero(marked)) / 8;
  }
  while (pos < text.size() && text[pos] != '"' && text[pos] != '\\' &&
         static_cast<unsigned char>(text[pos]) >= 0x20) {
    ++pos;
  }
  return pos;
}

}  // namespace

void JsonReader::SkipSpace() {
  const char* const text = text_.data();
  const size_t size = text_.size();
  size_t pos = pos_;
  // Files for people to read are a third indentation.
  for (uint64_t block = 0; pos + sizeof(block) <= size; pos += sizeof(block)) {
    std::memcpy(&block, text + pos, sizeof(block));
    if (block != kEachByte * ' ') break;
  }
  while (pos < size && static_cast<unsigned char>(text[pos]) <= ' ' &&
         (text[pos] == ' ' || text[pos] == '\n' || text[pos] == '\r' || text[pos] == '\t')) {
    ++pos;
  }
  pos_ = pos;
}

Status JsonReader::Unexpected(std::string_view expected) {
  if (pos_ >= text_.size()) return InvalidModelError("JSON ends at byte {}, expected {}", pos_, expected);
  return InvalidModelError("JSON at byte {}: expected {}, found '{}'", pos_, expected,
                           text_.substr(pos_, Utf8Length(text_[pos_])));
}

JsonReader::Kind JsonReader::Peek() {
  SkipSpace();
  if (pos_ >= text_.size()) return Kind::kEnd;
  switch (const char c = text_[pos_]) {
    case '{':
      return Kind::kObject;
    case '[':
      return Kind::kArray;
    case '"':
      return Kind::kString;
    case 't':
    case 'f':
      return Kind::kBool;
    case 'n':
      return Kind::kNull;
    default:
      return c == '-' || (c >= '0' && c <= '9') ? Kind::kNumber : Kind::kInvalid;
  }
}

Status JsonReader::EnterObject() {
  if (Peek() != Kind::kObject) return Unexpected("an object");
  if (++depth_ > kMaxDepth) return InvalidModelError("JSON at byte {}: nested too deep", pos_);
  ++pos_;
  first_ = true;
  return {};
}

Status JsonReader::EnterArray() {
  if (Peek() != Kind::kArray) return Unexpected("an array");
  if (++depth_ > kMaxDepth) return InvalidModelError("JSON at byte {}: nested too deep", pos_);
  ++pos_;
  first_ = true;
  return {};
}

Result<bool> JsonReader::NextKey(std::string_view& key) {
  SkipSpace();
  if (pos_ < text_.size() && text_[pos_] == '}') {
    ++pos_;
    --depth_;
    first_ = false;
    return false;
  }
  if (!first_) {
    if (pos_ >= text_.size() || text_[pos_] != ',') return Unexpected("',' or '}'");
    ++pos_;
    SkipSpace();
  }
  first_ = false;
  LAMINA_RETURN_IF_ERROR(ReadString(key));
  SkipSpace();
  if (pos_ >= text_.size() || text_[pos_] != ':') return Unexpected("':'");
  ++pos_;
  return true;
}

Result<bool> JsonReader::NextElement() {
  SkipSpace();
  if (pos_ < text_.size() && text_[pos_] == ']') {
    ++pos_;
    --depth_;
    first_ = false;
    return false;
  }
  if (!first_) {
    if (pos_ >= text_.size() || text_[pos_] != ',') return Unexpected("',' or ']'");
    ++pos_;
  }
  first_ = false;
  return true;
}

Status JsonReader::SkipString() {
  ++pos_;
  while (true) {
    // An escape at the end of the text leads beyond it.
    if (pos_ < text_.size()) pos_ += OrdinaryBytes(text_.substr(pos_));
    if (pos_ >= text_.size()) return Unexpected("'\"'");
    if (static_cast<unsigned char>(text_[pos_]) < 0x20)
      return Unexpected("a string without control characters");
    if (text_[pos_] == '"') {
      ++pos_;
      return {};
    }
    pos_ += 2;
  }
}

Status JsonReader::ReadString(std::string_view& value) {
  if (Peek() != Kind::kString) return Unexpected("a string");
  const size_t begin = pos_ + 1;
  LAMINA_RETURN_IF_ERROR(SkipString());
  const std::string_view raw = text_.substr(begin, pos_ - 1 - begin);
  if (std::memchr(raw.data(), '\\', raw.size()) == nullptr) {
    value = raw;
    return {};
  }
  return Unescape(raw, value);
}

Status JsonReader::Unescape(std::string_view raw, std::string_view& value) {
  std::string& out = unescaped_.emplace_back();
  out.reserve(raw.size());
  for (size_t i = 0; i < raw.size();) {
    if (raw[i] != '\\') {
      out += raw[i++];
      continue;
    }
    const char escape = raw[i + 1];  // SkipString has seen it
    i += 2;
    switch (escape) {
      case '"':
      case '\\':
      case '/':
        out += escape;
        break;
      case 'b':
        out += '\b';
        break;
      case 'f':
        out += '\f';
        break;
      case 'n':
        out += '\n';
        break;
      case 'r':
        out += '\r';
        break;
      case 't':
        out += '\t';
        break;
      case 'u': {
        int32_t code = Hex4(raw, i);
        i += 4;
        if (code >= 0xD800 && code < 0xDC00 && raw.substr(i).starts_with("\\u")) {
          const int32_t low = Hex4(raw, i + 2);
          i += 6;
          code = low >= 0xDC00 && low < 0xE000 ? 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00) : -1;
        }
        if (code < 0 || (code >= 0xD800 && code < 0xE000)) {
          return InvalidModelError("JSON before byte {}: bad \\u escape in \"{}\"", pos_, raw);
        }
        AppendUtf8(static_cast<char32_t>(code), out);
        break;
      }
      default:
        return InvalidModelError("JSON before byte {}: bad escape '\\{}'", pos_, escape);
    }
  }
  value = out;
  return {};
}

Status JsonReader::ReadUnsigned(uint64_t& value) {
  if (Peek() != Kind::kNumber) return Unexpected("a number");
  const char* begin = text_.data() + pos_;
  const char* limit = text_.data() + text_.size();
  const auto [end, error] = std::from_chars(begin, limit, value);
  if (error != std::errc() || (end != limit && (*end == '.' || *end == 'e' || *end == 'E'))) {
    return Unexpected("a number that is whole and not negative");
  }
  pos_ += static_cast<size_t>(end - begin);
  return {};
}

Status JsonReader::ReadDouble(double& value) {
  if (Peek() != Kind::kNumber) return Unexpected("a number");
  const std::optional<JsonNumber> number = ParseJsonNumber(text_.substr(pos_));
  if (!number) return Unexpected("a number in the range of double");
  value = number->value;
  pos_ += number->length;
  return {};
}

Result<std::string_view> JsonReader::RawValue() {
  const Kind kind = Peek();
  const size_t begin = pos_;
  switch (kind) {
    case Kind::kObject:
    case Kind::kArray:
      LAMINA_RETURN_IF_ERROR(SkipContainer());
      break;
    case Kind::kString:
      LAMINA_RETURN_IF_ERROR(SkipString());
      break;
    case Kind::kEnd:
      return Unexpected("a value");
    default: {
      const size_t end = std::min(text_.find_first_of(",:{}[]\" \t\r\n", pos_), text_.size());
      if (end == pos_) return Unexpected("a value");
      pos_ = end;
    }
  }
  return text_.substr(begin, pos_ - begin);
}

// What stands between strings and brackets is left for the JSON library to judge.
Status JsonReader::SkipContainer() {
  int open = 0;
  do {
    SkipSpace();
    if (pos_ >= text_.size()) return Unexpected("a value");
    switch (text_[pos_]) {
      case '{':
      case '[':
        if (++open + depth_ > kMaxDepth) return InvalidModelError("JSON at byte {}: nested too deep", pos_);
        ++pos_;
        break;
      case '}':
      case ']':
        --open;
        ++pos_;
        break;
      case '"':
        LAMINA_RETURN_IF_ERROR(SkipString());
        break;
      default:
        ++pos_;
    }
  } while (open > 0);
  return {};
}

Status JsonReader::ExpectEnd() {
  SkipSpace();
  if (pos_ != text_.size()) return Unexpected("the end");
  return {};
}

}  // namespace lamina::text
