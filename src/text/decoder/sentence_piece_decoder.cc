#include "text/decoder/sentence_piece_decoder.h"

#include <utility>

#include "text/decoder/byte_stages.h"
#include "text/decoder/text_stages.h"
#include "text/utf8.h"

namespace lamina::text {
namespace {

constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";  // U+2581

class SentencePieceStage : public WholeTokenStage {
 public:
  SentencePieceStage(DecodeStage& next, const SentencePieceDecoderOptions& options)
      : WholeTokenStage(next), options_(options) {}

  Status Finish() override {
    LAMINA_RETURN_IF_ERROR(FlushBytes(true));
    at_start_ = true;
    return next().Finish();
  }

 protected:
  Status Token(std::string_view token) override {
    const auto found = options_.types.find(std::string(token));
    const SentencePieceType type = found == options_.types.end() ? SentencePieceType::kNormal : found->second;
    if (type == SentencePieceType::kByte) {
      bytes_.push_back(static_cast<char>(ByteOfToken(token)));
      return FlushBytes(false);
    }
    LAMINA_RETURN_IF_ERROR(FlushBytes(true));
    if (type == SentencePieceType::kControl) return {};
    if (type == SentencePieceType::kUnknown) return Write(options_.unk_surface);
    const bool drops_space = at_start_ && options_.drops_first_space && token.starts_with(kSpaceSymbol);
    if (drops_space) token.remove_prefix(kSpaceSymbol.size());
    // Spaces go from the first piece, or from every piece until there is text.
    if (drops_space && !options_.drops_all_leading_spaces) at_start_ = false;
    return Write(ReplaceAll(token, kSpaceSymbol, " "));
  }

 private:
  Status Write(std::string_view text) {
    if (text.empty()) return {};
    at_start_ = false;
    return Pass(text);
  }

  // Passes on the characters that byte pieces have completed; at the end of a run also what is left of it.
  // Each byte that belongs to no character becomes U+FFFD.
  Status FlushBytes(bool run_ends) {
    std::string text;
    std::string_view rest = bytes_;
    while (!rest.empty()) {
      const size_t valid = ValidUtf8Prefix(rest);
      text += rest.substr(0, valid);
      rest.remove_prefix(valid);
      if (rest.empty() || (!run_ends && ClassifyInvalidUtf8(rest).incomplete)) break;
      text += kReplacementChar;
      rest.remove_prefix(1);
    }
    bytes_.erase(0, bytes_.size() - rest.size());
    return Write(text);
  }

  const SentencePieceDecoderOptions& options_;
  std::string bytes_;
  bool at_start_ = true;
};

class SentencePieceDecoder : public Decoder {
 public:
  explicit SentencePieceDecoder(SentencePieceDecoderOptions options) : options_(std::move(options)) {}
  DecodeStage& AddStages(DecodeStage& next, DecodeStages& stages) const override {
    stages.push_back(std::make_unique<SentencePieceStage>(next, options_));
    return *stages.back();
  }

 private:
  SentencePieceDecoderOptions options_;
};

}  // namespace

std::unique_ptr<Decoder> MakeSentencePieceDecoder(SentencePieceDecoderOptions options) {
  return std::make_unique<SentencePieceDecoder>(std::move(options));
}

}  // namespace lamina::text
