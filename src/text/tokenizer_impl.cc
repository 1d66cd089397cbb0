#include "text/tokenizer_impl.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "text/utf8.h"

namespace lamina {

using text::AddedMatch;
using text::ModelToken;
using text::NormalizedText;
using text::PreTokenizedText;
using text::SourceSpan;

namespace {

// Sources and positions are 32 bits, signed in places.
constexpr size_t kMaxTextBytes = (size_t{1} << 31) - 1;
// Replacing one invalid byte by U+FFFD makes a text up to three times as long.
constexpr size_t kMaxGivenBytes = kMaxTextBytes / 4;

// For each byte of a text whose invalid parts were replaced: where it stood in the given text. One entry more
// than bytes.
std::vector<uint32_t> PositionsBeforeRepair(std::string_view given, text::InvalidUtf8Unit unit) {
  std::vector<uint32_t> positions;
  uint32_t pos = 0;
  while (true) {
    const std::string_view rest = given.substr(pos);
    const size_t valid = text::ValidUtf8Prefix(rest);
    for (size_t i = 0; i < valid; ++i) positions.push_back(pos++);
    if (valid == rest.size()) break;
    positions.insert(positions.end(), text::kReplacementChar.size(), pos);
    const size_t invalid = text::ClassifyInvalidUtf8(rest.substr(valid)).length_bytes;
    pos += unit == text::InvalidUtf8Unit::kByte ? 1 : static_cast<uint32_t>(invalid);
  }
  positions.push_back(pos);
  return positions;
}

template <typename T>
void KeepPart(std::vector<T>& values, size_t begin, size_t end) {
  values.erase(values.begin() + static_cast<long>(end), values.end());
  values.erase(values.begin(), values.begin() + static_cast<long>(begin));
}

}  // namespace

// Gathers the tokens of all stretches.
struct TokenizerImpl::Collector {
  const text::Model& model;
  bool detailed;
  bool track_sources;
  Encoding encoding;
  std::vector<ModelToken> tokens;

  void AddToken(TokenId id, std::string_view piece, SourceSpan source) {
    encoding.ids.push_back(id);
    if (!detailed) return;
    encoding.pieces.emplace_back(piece);
    encoding.spans.push_back({source.begin, source.end});
    encoding.special.push_back(false);
  }
  void AddModelTokens(const PreTokenizedText& text) {
    for (const ModelToken& token : tokens) {
      if (!detailed) {
        encoding.ids.push_back(token.id);
        continue;
      }
      SourceSpan source;
      if (token.begin < token.end) source = text.text.Source(token.begin, token.end);
      AddToken(token.id, model.Spelling(token, text), source);
    }
    tokens.clear();
  }
};

Status TokenizerImpl::EncodePieces(NormalizedText text, Collector& collector) const {
  const auto size = static_cast<uint32_t>(text.size());
  if (size == 0) return {};
  PreTokenizedText pre_tokenized{std::move(text), {{0, size}}};
  if (pre_tokenizer != nullptr) LAMINA_RETURN_IF_ERROR(pre_tokenizer->Split(pre_tokenized));
  if (pre_tokenized.text.size() > kMaxTextBytes) {
    return InvalidArgumentError("text of {} bytes once normalized is longer than {}",
                                pre_tokenized.text.size(), kMaxTextBytes);
  }
  // Address space rather than memory: what is not written to costs nothing, growing costs copies.
  collector.tokens.reserve(pre_tokenized.text.size() / 2);
  LAMINA_RETURN_IF_ERROR(model->Tokenize(pre_tokenized, collector.tokens));
  collector.AddModelTokens(pre_tokenized);
  return {};
}

Status TokenizerImpl::EncodeStretch(std::string_view stretch, size_t source_begin,
                                    const EncodeOptions& options, Collector& collector) const {
  NormalizedText text(stretch, source_begin, collector.track_sources);
  if (normalizer != nullptr) LAMINA_RETURN_IF_ERROR(normalizer->Normalize(text));
  if (text.size() > kMaxTextBytes) {
    return InvalidArgumentError("text of {} bytes once normalized is longer than {}", text.size(),
                                kMaxTextBytes);
  }
  if (!added.HasTokens(true)) return EncodePieces(std::move(text), collector);
  const std::vector<AddedMatch> matches = added.Find(text.text(), true, options.special_tokens_as_text);
  if (matches.size() == 1 && !matches[0].id) return EncodePieces(std::move(text), collector);
  for (const AddedMatch& match : matches) {
    if (match.id) {
      const std::string_view piece = text.text().substr(match.begin, match.end - match.begin);
      collector.AddToken(*match.id, piece, text.Source(match.begin, match.end));
    } else {
      LAMINA_RETURN_IF_ERROR(EncodePieces(text.Slice(match.begin, match.end), collector));
    }
  }
  return {};
}

Result<Encoding> TokenizerImpl::Encode(std::string_view given, const EncodeOptions& options,
                                       bool detailed) const {
  if (given.size() > kMaxGivenBytes) {
    return InvalidArgumentError("text of {} bytes is longer than {}", given.size(), kMaxGivenBytes);
  }
  const auto unit =
      replaces_each_invalid_byte ? text::InvalidUtf8Unit::kByte : text::InvalidUtf8Unit::kMaximalPart;
  std::string repaired;
  std::string_view text = given;
  if (text::ValidUtf8Prefix(given) != given.size()) text = repaired = text::ReplaceInvalidUtf8(given, unit);

  const bool track_sources = detailed || (pre_tokenizer != nullptr && pre_tokenizer->NeedsSources());
  Collector collector{*model, detailed, track_sources, {}, {}};
  if (!detailed) collector.encoding.ids.reserve(text.size() / 2);
  for (const AddedMatch& match : added.Find(text, false, options.special_tokens_as_text)) {
    const std::string_view stretch = text.substr(match.begin, match.end - match.begin);
    if (match.id) {
      collector.AddToken(*match.id, stretch,
                         {static_cast<uint32_t>(match.begin), static_cast<uint32_t>(match.end)});
    } else {
      LAMINA_RETURN_IF_ERROR(EncodeStretch(stretch, match.begin, options, collector));
    }
  }
  Encoding encoding = std::move(collector.encoding);
  if (options.truncate_and_pad) Truncate(encoding, options.add_special_tokens, detailed);
  if (post_processor != nullptr) {
    post_processor->Process(encoding, text, {options.add_special_tokens, detailed});
  }
  if (options.truncate_and_pad) Pad(encoding, detailed);
  if (detailed && !repaired.empty()) {
    const std::vector<uint32_t> positions = PositionsBeforeRepair(given, unit);
    for (Encoding::Span& span : encoding.spans) span = {positions[span.begin], positions[span.end]};
  }
  return encoding;
}

void TokenizerImpl::Truncate(Encoding& encoding, bool with_special_tokens, bool detailed) const {
  if (!truncation) return;
  const size_t reserved =
      with_special_tokens && post_processor != nullptr ? post_processor->AddedTokens() : 0;
  const size_t limit = truncation->max_tokens > reserved ? truncation->max_tokens - reserved : 0;
  const size_t count = encoding.ids.size();
  if (count <= limit) return;
  const size_t begin = truncation->from_left ? count - limit : 0;
  KeepPart(encoding.ids, begin, begin + limit);
  if (!detailed) return;
  KeepPart(encoding.pieces, begin, begin + limit);
  KeepPart(encoding.spans, begin, begin + limit);
  KeepPart(encoding.special, begin, begin + limit);
}

void TokenizerImpl::Pad(Encoding& encoding, bool detailed) const {
  if (!padding) return;
  size_t target = padding->fixed_tokens.value_or(encoding.ids.size());
  if (padding->multiple_of > 0 && target % padding->multiple_of != 0) {
    target += padding->multiple_of - target % padding->multiple_of;
  }
  if (encoding.ids.size() >= target) return;
  const size_t count = target - encoding.ids.size();
  const long at = padding->on_left ? 0 : static_cast<long>(encoding.ids.size());
  encoding.ids.insert(encoding.ids.begin() + at, count, padding->id);
  if (!detailed) return;
  encoding.pieces.insert(encoding.pieces.begin() + at, count, padding->token);
  encoding.spans.insert(encoding.spans.begin() + at, count, Encoding::Span{});
  encoding.special.insert(encoding.special.begin() + at, count, true);
}

std::optional<TokenId> TokenizerImpl::TokenToId(std::string_view token) const {
  if (const std::optional<TokenId> id = added.Find(token)) return id;
  return model->vocabulary().Find(token);
}

std::string_view TokenizerImpl::IdToToken(TokenId id, bool& exists) const {
  exists = true;
  if (const std::string* spelling = added.Spelling(id)) return *spelling;
  exists = model->vocabulary().Has(id);
  return model->vocabulary().Text(id);
}

bool TokenizerImpl::IsSpecial(TokenId id) const {
  if (const text::AddedToken* token = added.Token(id)) return added.IsSpecial(token->content);
  return model->vocabulary().Has(id) && added.IsSpecial(model->vocabulary().Text(id));
}

size_t TokenizerImpl::IdLimit() const {
  size_t limit = model->vocabulary().id_limit();
  added.ForEach(
      [&](TokenId id, const text::AddedToken&) { limit = std::max(limit, static_cast<size_t>(id) + 1); });
  return limit;
}

size_t TokenizerImpl::VocabularySize() const {
  size_t size = model->vocabulary().size();
  added.ForEach([&](TokenId, const text::AddedToken& token) {
    if (!model->vocabulary().Find(token.content)) ++size;
  });
  return size;
}

}  // namespace lamina
