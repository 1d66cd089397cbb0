#include "text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "text/format/load.h"
#include "text/tokenizer_impl.h"

namespace lamina {
namespace {

// Feeds the spellings of ids to a decoder's stages.
class IdDecoder {
 public:
  IdDecoder(const TokenizerImpl& tokenizer, const DecodeOptions& options)
      : tokenizer_(tokenizer), options_(options), first_(tokenizer.decoder->AddStages(text_, stages_)) {}
  IdDecoder(const IdDecoder&) = delete;

  Status Push(TokenId id) {
    bool exists = false;
    const std::string_view token = tokenizer_.IdToToken(id, exists);
    if (!exists || (options_.skip_special_tokens && tokenizer_.added.IsSpecial(token))) return {};
    return first_.Feed(token, true, true);
  }
  Status Finish() { return first_.Finish(); }
  std::string Take() { return text_.Take(); }

 private:
  const TokenizerImpl& tokenizer_;
  const DecodeOptions options_;
  text::CollectStage text_;
  text::DecodeStages stages_;
  text::DecodeStage& first_;
};

}  // namespace

Result<Tokenizer> Tokenizer::Load(const std::string& path) {
  LAMINA_ASSIGN_OR_RETURN(std::shared_ptr<const TokenizerImpl> impl, text::LoadTokenizer(path));
  return Tokenizer(std::move(impl));
}

Result<Tokenizer> Tokenizer::FromJson(std::string_view json, const std::string& name) {
  LAMINA_ASSIGN_OR_RETURN(std::shared_ptr<const TokenizerImpl> impl, text::LoadTokenizerFromJson(json, name));
  return Tokenizer(std::move(impl));
}

Result<std::vector<TokenId>> Tokenizer::Encode(std::string_view text, const EncodeOptions& options) const {
  LAMINA_ASSIGN_OR_RETURN(Encoding encoding, impl_->Encode(text, options, false));
  return std::move(encoding.ids);
}

Result<Encoding> Tokenizer::EncodeWithDetails(std::string_view text, const EncodeOptions& options) const {
  return impl_->Encode(text, options, true);
}

Result<size_t> Tokenizer::CountTokens(std::string_view text, const EncodeOptions& options) const {
  LAMINA_ASSIGN_OR_RETURN(const Encoding encoding, impl_->Encode(text, options, false));
  return encoding.ids.size();
}

Result<std::vector<TokenId>> Tokenizer::EncodePrompt(std::string_view prompt) const {
  LAMINA_ASSIGN_OR_RETURN(std::vector<TokenId> ids, Encode(prompt, {.add_special_tokens = true}));
  const std::optional<TokenId>& bos = roles().bos;
  if (roles().add_bos.value_or(false) && bos && (ids.empty() || ids.front() != *bos))
    ids.insert(ids.begin(), *bos);
  return ids;
}

Result<std::string> Tokenizer::Decode(std::span<const TokenId> ids, const DecodeOptions& options) const {
  IdDecoder decoder(*impl_, options);
  for (TokenId id : ids) LAMINA_RETURN_IF_ERROR(decoder.Push(id));
  LAMINA_RETURN_IF_ERROR(decoder.Finish());
  return decoder.Take();
}

std::optional<TokenId> Tokenizer::TokenToId(std::string_view token) const { return impl_->TokenToId(token); }

std::optional<std::string> Tokenizer::IdToToken(TokenId id) const {
  bool exists = false;
  const std::string_view token = impl_->IdToToken(id, exists);
  if (!exists) return std::nullopt;
  return std::string(token);
}

bool Tokenizer::IsSpecial(TokenId id) const { return impl_->IsSpecial(id); }
const TokenRoles& Tokenizer::roles() const { return impl_->roles; }
size_t Tokenizer::id_limit() const { return impl_->IdLimit(); }
size_t Tokenizer::vocabulary_size() const { return impl_->VocabularySize(); }
const std::optional<TruncationLimits>& Tokenizer::truncation() const { return impl_->truncation; }
const std::optional<PaddingRule>& Tokenizer::padding() const { return impl_->padding; }

struct TokenStream::State {
  State(std::shared_ptr<const TokenizerImpl> kept_tokenizer, const DecodeOptions& options)
      : tokenizer(std::move(kept_tokenizer)), decoder(*tokenizer, options) {}
  std::shared_ptr<const TokenizerImpl> tokenizer;
  IdDecoder decoder;
};

TokenStream::TokenStream(const Tokenizer& tokenizer, const DecodeOptions& options)
    : state_(std::make_unique<State>(tokenizer.impl_, options)) {}
TokenStream::~TokenStream() = default;
TokenStream::TokenStream(TokenStream&&) noexcept = default;
TokenStream& TokenStream::operator=(TokenStream&&) noexcept = default;

Result<std::string> TokenStream::Push(TokenId id) {
  LAMINA_RETURN_IF_ERROR(state_->decoder.Push(id));
  return state_->decoder.Take();
}

Result<std::string> TokenStream::Finish() {
  LAMINA_RETURN_IF_ERROR(state_->decoder.Finish());
  return state_->decoder.Take();
}

}  // namespace lamina
