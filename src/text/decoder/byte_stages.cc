#include "text/decoder/byte_stages.h"

#include "text/byte_level.h"
#include "text/utf8.h"

namespace lamina::text {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

int ByteOfToken(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return -1;
  const int high = HexDigit(token[3]);
  const int low = HexDigit(token[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

Status ByteLevelStage::Token(std::string_view token) {
  if (!LettersToBytes(token, bytes_)) bytes_ += token;
  return Flush(false);
}

Status ByteLevelStage::Flush(bool at_end) {
  std::string text;
  std::string_view rest = bytes_;
  while (true) {
    const size_t valid = ValidUtf8Prefix(rest);
    text += rest.substr(0, valid);
    rest.remove_prefix(valid);
    if (rest.empty()) break;
    const InvalidUtf8 invalid = ClassifyInvalidUtf8(rest);
    if (invalid.incomplete && !at_end) break;
    text += kReplacementChar;
    rest.remove_prefix(invalid.length_bytes);
  }
  bytes_.erase(0, bytes_.size() - rest.size());
  if (text.empty() && !at_end) return {};
  const bool begins = !begun_;
  begun_ = !at_end;
  return next().Feed(text, begins, at_end);
}

Status ByteLevelStage::Finish() {
  LAMINA_RETURN_IF_ERROR(Flush(true));
  return next().Finish();
}

Status ByteFallbackStage::Token(std::string_view token) {
  if (const int byte = ByteOfToken(token); byte >= 0) {
    run_.push_back(static_cast<char>(byte));
    return {};
  }
  LAMINA_RETURN_IF_ERROR(FlushRun());
  return Pass(token);
}

Status ByteFallbackStage::FlushRun() {
  if (run_.empty()) return {};
  const std::string run = std::move(run_);
  run_.clear();
  if (ValidUtf8Prefix(run) == run.size()) return Pass(run);
  for (size_t i = 0; i < run.size(); ++i) LAMINA_RETURN_IF_ERROR(Pass(kReplacementChar));
  return {};
}

Status ByteFallbackStage::Finish() {
  LAMINA_RETURN_IF_ERROR(FlushRun());
  return next().Finish();
}

}  // namespace lamina::text
