// Text to token ids and back, exactly as the model's own tokenizer files say.
//
//   LAMINA_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::Load("models/tales"));
//   LAMINA_ASSIGN_OR_RETURN(std::vector<TokenId> ids, tokenizer.Encode("Once upon a time"));
//   TokenStream stream(tokenizer, {.skip_special_tokens = true});
//   for (TokenId id : ids) { LAMINA_ASSIGN_OR_RETURN(std::string text, stream.Push(id)); std::cout << text; }
//   LAMINA_ASSIGN_OR_RETURN(std::string rest, stream.Finish()); std::cout << rest;
//
// Files, in the order in which a folder is searched:
//   tokenizer.json            the format of the Hugging Face `tokenizers` library, whose behaviour is the
//   reference tokenizer.model, spiece.model, sentencepiece.bpe.model, *.model   SentencePiece (BPE and
//   unigram) tokenizer.model, *.tiktoken   base64 token and rank a line (a .model file's content tells which
//   it is) vocab.json + merges.txt   byte-level BPE as GPT-2 has it vocab.txt                 WordPiece as
//   BERT has it
// Beside them tokenizer_config.json, special_tokens_map.json and added_tokens.json are read where present.
// They add tokens and name the special ones; what is inserted around a text is decided by tokenizer.json
// where there is one, else by add_bos_token and add_eos_token.
//
// A component that Lamina does not know is UNSUPPORTED and named; a malformed file is INVALID_MODEL; a file
// that cannot be read is NOT_FOUND or IO.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/status.h"

namespace lamina {

using TokenId = int32_t;

struct EncodeOptions {
  // Insert what the tokenizer's post-processor or configuration puts around a text (BOS, EOS, [CLS], ...).
  bool add_special_tokens = false;
  // Read "<|end|>" in the text as ordinary characters, not as the special token: for text from users that
  // must not be able to write control tokens. Added tokens that are not special are still found.
  bool special_tokens_as_text = false;
  // Apply the truncation and padding that tokenizer.json asks for. Off by default so that no part of a prompt
  // is dropped without a word; the reference library applies them.
  bool truncate_and_pad = false;
};

struct DecodeOptions {
  bool skip_special_tokens = false;
};

// One encoded text with everything known about each token. The vectors have equal lengths.
struct Encoding {
  // Bytes [begin, end) of the text that was given; {0, 0} for a token that stands for no part of it. A token
  // that covers part of a character spans the whole character.
  struct Span {
    size_t begin = 0;
    size_t end = 0;
    bool operator==(const Span&) const = default;
  };
  std::vector<TokenId> ids;
  std::vector<std::string> pieces;  // as the vocabulary writes them: "Ġworld", "▁world", "##ing", "<0x0A>"
  std::vector<Span> spans;
  std::vector<bool> special;  // inserted by the post-processor or by padding
};

// The roles that the configuration files give to tokens.
struct TokenRoles {
  std::optional<TokenId> bos, eos, unk, pad, sep, cls, mask;
  std::vector<TokenId> additional;  // additional_special_tokens
  // add_bos_token and add_eos_token of tokenizer_config.json, or what a SentencePiece or GPT-2 tokenizer of
  // that class does by default; nothing where no file says.
  std::optional<bool> add_bos, add_eos;
};

struct TruncationLimits {
  size_t max_tokens = 0;  // special tokens included
  bool from_left = false;
};

struct PaddingRule {
  std::optional<size_t> fixed_tokens;  // pad to this many; nothing: to the longest of the batch
  size_t multiple_of = 0;              // 0: no rounding up
  bool on_left = false;
  TokenId id = 0;
  std::string token;
};

class TokenizerImpl;

// A loaded tokenizer. Immutable; copies share one vocabulary and are cheap. All functions may be called from
// many threads at once.
//
// Text is UTF-8. Invalid sequences are replaced by U+FFFD before anything else, one for each maximal invalid
// part (as Unicode recommends and the reference's readers do); spans refer to the bytes that were given.
class Tokenizer {
 public:
  // `path`: a model folder, or one of the files above (then the files beside it are read as well).
  static Result<Tokenizer> Load(const std::string& path);
  // From the content of a tokenizer.json alone. `name` stands in error texts.
  static Result<Tokenizer> FromJson(std::string_view json, const std::string& name = "tokenizer.json");

  Result<std::vector<TokenId>> Encode(std::string_view text, const EncodeOptions& options = {}) const;
  Result<Encoding> EncodeWithDetails(std::string_view text, const EncodeOptions& options = {}) const;
  // Number of ids that Encode would return.
  Result<size_t> CountTokens(std::string_view text, const EncodeOptions& options = {}) const;
  // A raw prompt as the model expects it: add_special_tokens, and a BOS in front where tokenizer_config.json
  // says add_bos_token and the tokenizer put none there. Not for a rendered chat template, which writes its
  // own BOS.
  Result<std::vector<TokenId>> EncodePrompt(std::string_view prompt) const;

  // Always valid UTF-8. Ids without a token are left out, as the reference does.
  Result<std::string> Decode(std::span<const TokenId> ids, const DecodeOptions& options = {}) const;

  // The id of a token spelled as in the vocabulary ("<|end|>", "Ġworld"), added tokens first.
  std::optional<TokenId> TokenToId(std::string_view token) const;
  // The spelling in the vocabulary; nothing where there is no such id.
  std::optional<std::string> IdToToken(TokenId id) const;
  // Whether the token is marked special (skipped by skip_special_tokens).
  bool IsSpecial(TokenId id) const;

  const TokenRoles& roles() const;
  // One more than the largest id. Ids below it may be without a token.
  size_t id_limit() const;
  // Tokens, added ones included.
  size_t vocabulary_size() const;
  const std::optional<TruncationLimits>& truncation() const;
  const std::optional<PaddingRule>& padding() const;

 private:
  friend class TokenStream;
  explicit Tokenizer(std::shared_ptr<const TokenizerImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const TokenizerImpl> impl_;
};

// Decodes token by token, for output while a model generates. The pieces of all Push calls and of Finish,
// concatenated, equal Tokenizer::Decode of the same ids, and no piece ends inside a UTF-8 character. Text
// whose form depends on tokens that have not come (an unfinished character, a run of byte tokens of a decoder
// that judges the run as a whole, a space that a decoder may drop) is held back until it is settled. Not
// thread-safe; keeps its tokenizer alive.
class TokenStream {
 public:
  explicit TokenStream(const Tokenizer& tokenizer, const DecodeOptions& options = {});
  ~TokenStream();
  TokenStream(TokenStream&&) noexcept;
  TokenStream& operator=(TokenStream&&) noexcept;

  // The text that is settled with `id`; often empty.
  Result<std::string> Push(TokenId id);
  // The text still held back. The stream then starts anew.
  Result<std::string> Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lamina
