#include "text/added_vocabulary.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace lamina::text {
namespace {

// Where the last character before `end` begins. REQUIRES: end > 0.
size_t PreviousChar(std::string_view text, size_t end) {
  do --end;
  while (IsUtf8Continuation(text[end]));
  return end;
}

bool EndsWithWord(std::string_view text) {
  return !text.empty() && IsWordChar(DecodeUtf8(text.substr(PreviousChar(text, text.size()))).code);
}
bool StartsWithWord(std::string_view text) { return !text.empty() && IsWordChar(DecodeUtf8(text).code); }

size_t LeadingSpaceBytes(std::string_view text) {
  size_t pos = 0;
  while (pos < text.size()) {
    const Utf8Char c = DecodeUtf8(text.substr(pos));
    if (!IsWhitespace(c.code)) break;
    pos += c.length_bytes;
  }
  return pos;
}

// Where the white space at the end of `text` begins.
size_t TrailingSpaceBegin(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    const size_t last = PreviousChar(text, end);
    if (!IsWhitespace(DecodeUtf8(text.substr(last)).code)) break;
    end = last;
  }
  return end;
}

}  // namespace

Status AddedVocabulary::Add(const AddedToken& token, const Vocabulary& model, std::optional<TokenId> wanted) {
  if (token.content.empty()) return {};
  const std::optional<TokenId> known = Find(token.content);
  if (known && tokens_.at(*known).token == token) return {};
  const bool was_searched = is_searched_special_.contains(token.content);
  if (token.special && !was_searched) {
    special_.insert(token.content);
    is_searched_special_.insert(token.content);
    special_entries_.push_back(token);
  }
  std::optional<TokenId> id = known;
  if (!id) id = model.Find(token.content);
  if (!id) id = wanted;
  if (!id) {
    id = std::max(static_cast<TokenId>(model.size()), id_limit_);
  }
  if (static_cast<uint64_t>(*id) > Vocabulary::kMaxId) {
    return InvalidModelError("added token '{}': id {} is above {}", token.content, *id, Vocabulary::kMaxId);
  }
  ids_[token.content] = *id;
  id_limit_ = std::max(id_limit_, *id + 1);
  tokens_[*id] = {token, token.content};
  if (!is_searched_special_.contains(token.content)) other_entries_.push_back(token);
  return {};
}

void AddedVocabulary::Build(Matcher& matcher, std::vector<std::string> contents,
                            const std::vector<TokenId>& ids) {
  matcher.contents = std::move(contents);
  // Of equal contents the first counts; the trie keeps the last.
  std::vector<std::pair<std::string_view, int32_t>> entries;
  for (size_t i = matcher.contents.size(); i-- > 0;) entries.emplace_back(matcher.contents[i], ids[i]);
  matcher.trie = ByteTrie(std::move(entries));
  for (size_t byte = 0; byte < 256; ++byte) {
    matcher.first_bytes[byte] = matcher.trie.StartsWith(static_cast<char>(byte));
  }
}

Result<std::string> AddedVocabulary::Normalized(const AddedToken& token, const Normalizer* normalizer) {
  if (!token.normalized || normalizer == nullptr) return token.content;
  NormalizedText text(token.content, 0, false);
  LAMINA_RETURN_IF_ERROR(normalizer->Normalize(text));
  return std::string(text.text());
}

Status AddedVocabulary::Prepare(const Normalizer* normalizer) {
  std::vector<std::string> contents[2];
  std::vector<TokenId> ids[2];
  for (const std::vector<AddedToken>* entries : {&special_entries_, &other_entries_}) {
    for (const AddedToken& entry : *entries) {
      LAMINA_ASSIGN_OR_RETURN(std::string content, Normalized(entry, normalizer));
      contents[entry.normalized ? 1 : 0].push_back(std::move(content));
      ids[entry.normalized ? 1 : 0].push_back(ids_.at(entry.content));
    }
  }
  Build(plain_, std::move(contents[0]), ids[0]);
  Build(normalized_, std::move(contents[1]), ids[1]);
  for (auto& [id, known] : tokens_) {
    LAMINA_ASSIGN_OR_RETURN(known.spelling, Normalized(known.token, normalizer));
  }
  return {};
}

std::vector<AddedMatch> AddedVocabulary::Find(std::string_view text, bool normalized,
                                              bool special_as_text) const {
  const Matcher& matcher = normalized ? normalized_ : plain_;
  std::vector<AddedMatch> stretches;
  size_t done = 0;
  for (size_t pos = 0; pos < text.size();) {
    if (!matcher.first_bytes[static_cast<unsigned char>(text[pos])]) {
      ++pos;
      continue;
    }
    const auto [length, id] = matcher.trie.LongestPrefix(text.substr(pos));
    if (length == 0) {
      ++pos;
      continue;
    }
    size_t begin = pos;
    size_t end = pos + length;
    pos = end;
    const AddedToken& token = tokens_.at(id).token;
    if (special_as_text && special_.contains(token.content)) continue;
    if (token.single_word && (EndsWithWord(text.substr(0, begin)) || StartsWithWord(text.substr(end))))
      continue;
    if (token.lstrip) begin = std::max(TrailingSpaceBegin(text.substr(0, begin)), done);
    if (token.rstrip) end += LeadingSpaceBytes(text.substr(end));
    if (done < begin) stretches.push_back({done, begin, std::nullopt});
    stretches.push_back({begin, end, id});
    done = end;
  }
  if (done < text.size()) stretches.push_back({done, text.size(), std::nullopt});
  return stretches;
}

std::optional<TokenId> AddedVocabulary::Find(std::string_view content) const {
  const auto found = ids_.find(std::string(content));
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

const AddedToken* AddedVocabulary::Token(TokenId id) const {
  const auto found = tokens_.find(id);
  return found == tokens_.end() ? nullptr : &found->second.token;
}

const std::string* AddedVocabulary::Spelling(TokenId id) const {
  const auto found = tokens_.find(id);
  return found == tokens_.end() ? nullptr : &found->second.spelling;
}

void AddedVocabulary::ForEach(const std::function<void(TokenId, const AddedToken&)>& visit) const {
  for (const auto& [id, known] : tokens_) visit(id, known.token);
}

}  // namespace lamina::text
