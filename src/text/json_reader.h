// A pull reader for the large parts of tokenizer.json (vocabularies of 200,000 entries, half a million
// merges), where building a document tree would take most of the loading time. Small parts are cut out as
// text with RawValue and given to the ordinary JSON library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "lamina/status.h"

namespace lamina::text {

// Reads one document front to back. Every function expects what its name says and returns INVALID_MODEL with
// the byte position where it finds something else. Nesting is limited.
class JsonReader {
 public:
  enum class Kind { kObject, kArray, kString, kNumber, kBool, kNull, kEnd, kInvalid };

  // `text` must be valid UTF-8 and outlive the reader and the strings it returns.
  explicit JsonReader(std::string_view text) : text_(text) {}

  Kind Peek();

  // Objects and arrays: Enter..., then NextKey or NextElement until it says false, reading each value in
  // between.
  Status EnterObject();
  // The next key, in `key`; false at the closing brace.
  Result<bool> NextKey(std::string_view& key);
  Status EnterArray();
  // Whether another element follows; false at the closing bracket.
  Result<bool> NextElement();

  // The string lives as long as the reader and its text.
  Status ReadString(std::string_view& value);
  Status ReadUnsigned(uint64_t& value);
  // As json_number.h rounds.
  Status ReadDouble(double& value);
  // Skips one value and returns its text.
  Result<std::string_view> RawValue();
  // Nothing but white space may follow.
  Status ExpectEnd();

  size_t position() const { return pos_; }
  size_t bytes_left() const { return text_.size() - pos_; }

 private:
  void SkipSpace();
  Status Unexpected(std::string_view expected);
  Status SkipString();
  Status SkipContainer();
  Status Unescape(std::string_view raw, std::string_view& value);

  std::string_view text_;
  size_t pos_ = 0;
  int depth_ = 0;
  bool first_ = false;                 // nothing has been read of the innermost object or array
  std::deque<std::string> unescaped_;  // strings that had escapes
};

}  // namespace lamina::text
