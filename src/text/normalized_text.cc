#include "text/normalized_text.h"

#include <algorithm>
#include <utility>

#include "text/byte_level.h"
#include "text/utf8.h"

namespace lamina::text {

SourceSpan NormalizedText::Source(size_t begin, size_t end) const {
  if (!tracked_) return {};
  if (rewritten_) return {sources_[begin].begin, sources_[end - 1].end};
  while (begin > 0 && IsUtf8Continuation(view_[begin])) --begin;
  while (end < view_.size() && IsUtf8Continuation(view_[end])) ++end;
  return {source_begin_ + static_cast<uint32_t>(begin), source_begin_ + static_cast<uint32_t>(end)};
}

NormalizedText NormalizedText::Slice(size_t begin, size_t end) const {
  if (!rewritten_) return NormalizedText(view_.substr(begin, end - begin), source_begin_ + begin, tracked_);
  NormalizedText slice({}, 0, tracked_);
  slice.rewritten_ = true;
  slice.owned_ = owned_.substr(begin, end - begin);
  if (tracked_) {
    slice.sources_.assign(sources_.begin() + static_cast<long>(begin),
                          sources_.begin() + static_cast<long>(end));
  }
  return slice;
}

void Rewriter::Append(char32_t code, SourceSpan source) {
  const size_t before = out_.size();
  AppendUtf8(code, out_);
  if (from_.tracked_) sources_.insert(sources_.end(), out_.size() - before, source);
}

void Rewriter::Replace(char32_t code) {
  // A description that claims more characters than there are (possible with the rules of Precompiled) takes
  // the source of the last one.
  SourceSpan source;
  if (from_.tracked_ && part_begin_ < part_end_) source = from_.SourceOfByte(std::min(pos_, part_end_ - 1));
  Append(code, source);
  Skip(1);
}

void Rewriter::Insert(char32_t code) {
  SourceSpan source;
  if (from_.tracked_ && part_begin_ < part_end_) {
    if (pos_ > part_begin_) {
      source = from_.SourceOfByte(pos_ - 1);
    } else {
      const uint32_t begin = from_.SourceOfByte(part_begin_).begin;
      source = {begin, begin};
    }
  }
  Append(code, source);
}

void Rewriter::Insert(std::string_view text) {
  while (!text.empty()) {
    const Utf8Char c = DecodeUtf8(text);
    Insert(c.code);
    text.remove_prefix(c.length_bytes);
  }
}

void Rewriter::ReplaceBytes(size_t bytes, std::string_view text) {
  out_ += text;
  if (from_.tracked_) sources_.insert(sources_.end(), text.size(), from_.Source(pos_, pos_ + bytes));
  pos_ += bytes;
}

void Rewriter::DropLastBytes(size_t bytes) {
  out_.resize(out_.size() - bytes);
  if (from_.tracked_) sources_.resize(out_.size());
}

void Rewriter::Prepend(std::string_view prefix) {
  const char32_t next = DecodeUtf8(rest()).code;
  const Utf8Char first = DecodeUtf8(prefix);
  Replace(first.code);
  Insert(prefix.substr(first.length_bytes));
  Insert(next);
}

void Rewriter::ReplaceByByteLetters() {
  const std::string_view bytes = rest().substr(0, Utf8Length(rest()[0]));
  Replace(ByteLetter(static_cast<unsigned char>(bytes[0])));
  for (char byte : bytes.substr(1)) Insert(ByteLetter(static_cast<unsigned char>(byte)));
}

void Rewriter::Skip(size_t chars) {
  while (chars-- > 0 && pos_ < part_end_) pos_ += Utf8Length(text_[pos_]);
}

void Rewriter::Keep(size_t bytes) {
  out_.append(text_.substr(pos_, bytes));
  if (from_.tracked_) {
    for (size_t i = 0; i < bytes; ++i) sources_.push_back(from_.SourceOfByte(pos_ + i));
  }
  pos_ += bytes;
}

void Rewriter::Emit(char32_t code, long change) {
  if (change > 0) {
    Insert(code);
  } else {
    Replace(code);
    Skip(static_cast<size_t>(-change));
  }
}

void Rewriter::FinishInto(NormalizedText& target) && {
  target.owned_ = std::move(out_);
  target.sources_ = std::move(sources_);
  target.rewritten_ = true;
}

}  // namespace lamina::text
