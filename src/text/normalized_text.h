// A text on its way to the model: the characters as rewritten so far, and for each byte of them the bytes of
// the given text that they come from. Sources are tracked only on request, since ids do not depend on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lamina::text {

// Bytes [begin, end) of the given text. 32 bits: texts of 4 GiB and more are refused at the door.
struct SourceSpan {
  uint32_t begin = 0;
  uint32_t end = 0;
  bool operator==(const SourceSpan&) const = default;
};

class NormalizedText {
 public:
  // Views `text` (which must outlive this object or its first rewriting) as it is; its first byte is byte
  // `source_begin` of the given text.
  NormalizedText(std::string_view text, size_t source_begin, bool track_sources)
      : view_(text), source_begin_(static_cast<uint32_t>(source_begin)), tracked_(track_sources) {}

  std::string_view text() const { return rewritten_ ? std::string_view(owned_) : view_; }
  size_t size() const { return text().size(); }
  bool tracked() const { return tracked_; }

  // The part [begin, end) of text() as a text of its own. REQUIRES: whole characters.
  NormalizedText Slice(size_t begin, size_t end) const;

  // Where the bytes [begin, end) of text() come from; a part of a character counts as the whole character.
  // REQUIRES: tracked() and begin < end <= size(). Without tracking: {0, 0}.
  SourceSpan Source(size_t begin, size_t end) const;
  // The source of the one byte at `pos`: that of the character it belongs to.
  SourceSpan SourceOfByte(size_t pos) const { return Source(pos, pos + 1); }

 private:
  friend class Rewriter;
  std::string_view view_;
  std::string owned_;
  std::vector<SourceSpan> sources_;  // for each byte of owned_, where tracked
  uint32_t source_begin_ = 0;
  bool tracked_ = false;
  bool rewritten_ = false;
};

// Builds the next form of a text from consecutive parts of it, character by character. How a character is
// described decides its source, by the reference library's rules:
//   Replace(c)         c stands for the next character of the part and has its source
//   Insert(c)          c is additional and has the source of the character before the reading position
//   Skip(n)            the next n characters of the part vanish
class Rewriter {
 public:
  explicit Rewriter(const NormalizedText& from) : from_(from), text_(from.text()) {
    out_.reserve(text_.size() + text_.size() / 8);
    if (from.tracked_) sources_.reserve(text_.size());
  }

  // Goes on with the part [begin, end) of the text.
  void StartPart(size_t begin, size_t end) {
    part_begin_ = pos_ = begin;
    part_end_ = end;
  }
  void Replace(char32_t code);
  void Insert(char32_t code);
  void Insert(std::string_view text);
  void Skip(size_t chars);
  // Takes over the next `bytes` bytes unchanged. REQUIRES: a whole number of characters.
  void Keep(size_t bytes);
  // The next `bytes` bytes become `text`, all of whose characters have the source of these bytes. REQUIRES: a
  // whole number of characters.
  void ReplaceBytes(size_t bytes, std::string_view text);
  // Takes back the last bytes written.
  void DropLastBytes(size_t bytes);
  // Puts `prefix` before the next character, which then counts as inserted behind it.
  void Prepend(std::string_view prefix);
  // Replaces the next character by the letters of its bytes (byte_level.h).
  void ReplaceByByteLetters();
  // Replace for change <= 0, then Skip(-change); Insert for change > 0.
  void Emit(char32_t code, long change);

  // Bytes of the part that are not read yet.
  std::string_view rest() const { return text_.substr(pos_, part_end_ - pos_); }
  // What was written so far.
  std::string_view written() const { return out_; }
  size_t size() const { return out_.size(); }
  // What was written, as a text in place of `from`.
  void FinishInto(NormalizedText& target) &&;

 private:
  void Append(char32_t code, SourceSpan source);

  const NormalizedText& from_;
  std::string_view text_;
  std::string out_;
  std::vector<SourceSpan> sources_;
  size_t part_begin_ = 0;
  size_t part_end_ = 0;
  size_t pos_ = 0;
};

// A text cut into pieces. Pieces are ascending, do not overlap and are never empty; what lies between them
// was dropped.
struct PieceRange {
  uint32_t begin = 0;
  uint32_t end = 0;
};
struct PreTokenizedText {
  NormalizedText text;
  std::vector<PieceRange> pieces;

  std::string_view Piece(const PieceRange& range) const {
    return text.text().substr(range.begin, range.end - range.begin);
  }
};

}  // namespace lamina::text
