// Tokens that are found in the text before the model sees it: special ones like "<|end|>", and others that
// were added to a vocabulary later.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "lamina/status.h"
#include "text/byte_trie.h"
#include "text/normalizer/normalizer.h"
#include "text/vocabulary.h"

namespace lamina::text {

struct AddedToken {
  std::string content;
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space after it
  bool normalized = true;    // is looked for, normalized, in the normalized text
  bool special = false;      // left out by skip_special_tokens
  bool operator==(const AddedToken&) const = default;
};

// A stretch of a text: an added token, or what lies between two.
struct AddedMatch {
  size_t begin = 0;
  size_t end = 0;
  std::optional<TokenId> id;
};

// Filled while loading, then only read.
class AddedVocabulary {
 public:
  // Adds `token`: with the id it has in `model`, else with `id`, else with one above all ids so far. What is
  // there already in the same form, and the empty token, are left alone.
  Status Add(const AddedToken& token, const Vocabulary& model, std::optional<TokenId> id = std::nullopt);
  // Marks a token of the model as special without looking for it in texts.
  void MarkSpecial(std::string_view content) { special_.emplace(content); }
  // To be called after the last Add. `normalizer` may be null.
  Status Prepare(const Normalizer* normalizer);

  // The stretches of `text`, in order and without gaps. `normalized`: looks for the tokens that are looked
  // for in normalized text, else for the others. With `special_as_text`, special tokens are not found.
  std::vector<AddedMatch> Find(std::string_view text, bool normalized, bool special_as_text) const;

  // The id of an added token; the model's vocabulary is another matter.
  std::optional<TokenId> Find(std::string_view content) const;
  // Null where no added token has the id.
  const AddedToken* Token(TokenId id) const;
  // How the token is spelled in decodings: its content, normalized if it is looked for in normalized text (as
  // in the reference, which then does not count it as special either). Null where no added token has the id.
  const std::string* Spelling(TokenId id) const;
  bool IsSpecial(std::string_view content) const { return special_.contains(std::string(content)); }
  bool HasTokens(bool normalized) const { return !(normalized ? normalized_ : plain_).trie.empty(); }
  // Calls visit(id, token) for each, in no particular order.
  void ForEach(const std::function<void(TokenId, const AddedToken&)>& visit) const;

 private:
  struct Matcher {
    ByteTrie trie;
    std::array<bool, 256> first_bytes{};
    std::vector<std::string> contents;  // that the trie was built from
  };
  static Result<std::string> Normalized(const AddedToken& token, const Normalizer* normalizer);
  static void Build(Matcher& matcher, std::vector<std::string> contents, const std::vector<TokenId>& ids);

  std::unordered_map<std::string, TokenId> ids_;
  struct Known {
    AddedToken token;
    std::string spelling;
  };
  std::unordered_map<TokenId, Known> tokens_;
  TokenId id_limit_ = 0;  // one more than the largest id
  std::unordered_set<std::string> special_;
  std::unordered_set<std::string> is_searched_special_;  // those of special_ that have an entry
  std::vector<AddedToken> special_entries_;              // in the order that the matchers are built in
  std::vector<AddedToken> other_entries_;
  Matcher plain_;
  Matcher normalized_;
};

}  // namespace lamina::text
