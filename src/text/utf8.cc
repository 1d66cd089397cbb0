#include "text/utf8.h"

#include <array>
#include <cstring>

namespace lamina::text {
namespace {

// The range of second bytes that may follow `lead`, and the length; length 0 where `lead` begins nothing.
struct LeadByte {
  unsigned length = 0;
  unsigned char second_min = 0x80;
  unsigned char second_max = 0xBF;
};

LeadByte ClassifyLead(unsigned char lead) {
  if (lead < 0x80) return {1};
  if (lead < 0xC2) return {0};
  if (lead < 0xE0) return {2};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead < 0xF0) return {3};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

// Bytes at the start of `text` that agree with one character; equal to its length where it is complete.
size_t MatchedBytes(std::string_view text, const LeadByte& lead) {
  size_t matched = 1;
  while (matched < lead.length && matched < text.size()) {
    const auto byte = static_cast<unsigned char>(text[matched]);
    const unsigned char low = matched == 1 ? lead.second_min : 0x80;
    const unsigned char high = matched == 1 ? lead.second_max : 0xBF;
    if (byte < low || byte > high) break;
    ++matched;
  }
  return matched;
}

// The bytes at the start of `text` that are characters of two bytes, or of three whose second byte may be any
// continuation: all but a few of the letters of the world.
size_t SimpleCharBytes(std::string_view text) {
  size_t pos = 0;
  while (pos + 3 <= text.size()) {
    const auto lead = static_cast<unsigned char>(text[pos]);
    if (lead >= 0xC2 && lead < 0xE0 && IsUtf8Continuation(text[pos + 1])) {
      pos += 2;
    } else if (lead > 0xE0 && lead < 0xF0 && lead != 0xED && IsUtf8Continuation(text[pos + 1]) &&
               IsUtf8Continuation(text[pos + 2])) {
      pos += 3;
    } else {
      break;
    }
  }
  return pos;
}

}  // namespace

void AppendUtf8(char32_t code, std::string& out) {
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out.push_back(static_cast<char>(0xC0 | code >> 6));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else if (code < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | code >> 12));
    out.push_back(static_cast<char>(0x80 | (code >> 6 & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else {
    out.push_back(static_cast<char>(0xF0 | code >> 18));
    out.push_back(static_cast<char>(0x80 | (code >> 12 & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code >> 6 & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  }
}

std::string EncodeUtf8(char32_t code) {
  std::string out;
  AppendUtf8(code, out);
  return out;
}

size_t CountUtf8Chars(std::string_view text) {
  size_t count = 0;
  for (char byte : text) count += IsUtf8Continuation(byte) ? 0 : 1;
  return count;
}

size_t ValidUtf8Prefix(std::string_view text) {
  size_t pos = 0;
  while (pos < text.size()) {
    // ASCII, 32 bytes at a time.
    std::array<uint64_t, 4> block;
    while (pos + sizeof(block) <= text.size()) {
      std::memcpy(block.data(), text.data() + pos, sizeof(block));
      if (((block[0] | block[1] | block[2] | block[3]) & 0x8080808080808080u) != 0) break;
      pos += sizeof(block);
    }
    while (pos < text.size() && static_cast<unsigned char>(text[pos]) < 0x80) ++pos;
    pos += SimpleCharBytes(text.substr(pos));
    if (pos == text.size()) break;
    const auto byte = static_cast<unsigned char>(text[pos]);
    if (byte < 0x80) continue;
    const LeadByte lead = ClassifyLead(byte);
    if (lead.length == 0 || MatchedBytes(text.substr(pos), lead) != lead.length) return pos;
    pos += lead.length;
  }
  return pos;
}

InvalidUtf8 ClassifyInvalidUtf8(std::string_view text) {
  const LeadByte lead = ClassifyLead(static_cast<unsigned char>(text[0]));
  if (lead.length == 0) return {1, false};
  const size_t matched = MatchedBytes(text, lead);
  return {matched, matched == text.size() && matched < lead.length};
}

std::string ReplaceInvalidUtf8(std::string_view text, InvalidUtf8Unit unit) {
  std::string out;
  out.reserve(text.size());
  while (true) {
    const size_t valid = ValidUtf8Prefix(text);
    out.append(text.substr(0, valid));
    if (valid == text.size()) return out;
    text.remove_prefix(valid);
    out.append(kReplacementChar);
    text.remove_prefix(unit == InvalidUtf8Unit::kByte ? 1 : ClassifyInvalidUtf8(text).length_bytes);
  }
}

}  // namespace lamina::text
