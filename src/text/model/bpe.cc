#include "text/model/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "text/byte_level.h"
#include "text/utf8.h"

namespace lamina::text {
namespace {

// From this many pieces on a call remembers words that it has seen.
constexpr size_t kCacheFromPieces = 32;
constexpr size_t kMaxCacheSlots = 8192;
constexpr size_t kMaxCachedBytes = 64;
// Longer words than any token are not looked up whole.
constexpr size_t kMaxWholeWordBytes = 512;
// What WriteByteLetters needs for one.
constexpr size_t kMaxSpelledBytes = 2 * kMaxWholeWordBytes + 1;
// So many words are looked up together, so that their accesses to tables that fit no cache overlap.
constexpr size_t kWordsAhead = 16;

}  // namespace

// What one Tokenize call works with.
struct BpeModel::Scratch {
  // A word met before in the same text, and where its tokens stand among those already found.
  struct CacheSlot {
    uint64_t hash = 0;
    uint32_t word_begin = 0;
    uint32_t word_length = 0;  // 0: empty slot
    uint32_t first_token = 0;
    uint32_t token_count = 0;
  };
  BpeMerger merger;
  std::vector<BpeSymbol> symbols;
  std::vector<CacheSlot> cache;
  std::vector<Word> words;    // the next to be tokenized
  std::vector<char> letters;  // their spellings, room for kMaxSpelledBytes each
};

// A piece and how it is looked up.
struct BpeModel::Word {
  PieceRange piece;
  uint64_t hash = 0;          // of `spelling`
  std::string_view spelling;  // as in the vocabulary; empty where the word is too long to be looked up
  bool may_be_token = false;
};

BpeModel::BpeModel(Vocabulary vocabulary, MergeTable merges, BpeOptions options)
    : Model(std::move(vocabulary)), options_(std::move(options)), merges_(std::move(merges)) {
  has_affixes_ = !options_.continuing_subword_prefix.empty() || !options_.end_of_word_suffix.empty();
  looks_up_words_ = options_.ignore_merges || !has_affixes_;
  if (options_.unk_token) unk_id_ = this->vocabulary().Find(*options_.unk_token);
  FillSingles();
  whole_ = std::make_unique<std::atomic<uint8_t>[]>(this->vocabulary().id_limit());
}

void BpeModel::FillSingles() {
  singles_.fill(StringIndex::kMissing);
  byte_tokens_.fill(StringIndex::kMissing);
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (const auto id = vocabulary().Find(fmt::format("<0x{:02X}>", byte))) byte_tokens_[byte] = *id;
    if (!options_.pieces_are_bytes && byte >= 0x80) continue;
    const char32_t letter = options_.pieces_are_bytes ? ByteLetter(static_cast<unsigned char>(byte)) : byte;
    if (const auto id = vocabulary().Find(EncodeUtf8(letter))) singles_[byte] = *id;
  }
}

std::string BpeModel::WithAffixes(std::string_view letters, bool first, bool last) const {
  std::string symbol;
  if (!first) symbol += options_.continuing_subword_prefix;
  symbol += letters;
  if (last) symbol += options_.end_of_word_suffix;
  return symbol;
}

std::optional<TokenId> BpeModel::SymbolId(std::string_view letters, bool first, bool last) const {
  if (!has_affixes_) return vocabulary().Find(letters);
  return vocabulary().Find(WithAffixes(letters, first, last));
}

bool BpeModel::AppendByteTokens(std::string_view letters, bool first, bool last,
                                std::vector<BpeSymbol>& symbols) const {
  const std::string spelled = WithAffixes(letters, first, last);
  for (char byte : spelled) {
    if (byte_tokens_[static_cast<unsigned char>(byte)] == StringIndex::kMissing) return false;
  }
  for (char byte : spelled) symbols.push_back({byte_tokens_[static_cast<unsigned char>(byte)], 1});
  return true;
}

Status BpeModel::SplitIntoSymbols(std::string_view word, std::vector<BpeSymbol>& symbols) const {
  symbols.clear();
  std::optional<BpeSymbol> unknown;  // not yet appended, since it may grow
  std::string letter;
  for (size_t pos = 0; pos < word.size();) {
    const uint32_t length = options_.pieces_are_bytes ? 1 : Utf8Length(word[pos]);
    const bool first = pos == 0;
    const bool last = pos + length == word.size();
    const auto byte = static_cast<unsigned char>(word[pos]);
    std::string_view letters = word.substr(pos, length);
    pos += length;

    int32_t id = StringIndex::kMissing;
    if (!has_affixes_ && (options_.pieces_are_bytes || byte < 0x80)) {
      id = singles_[byte];
      if (id == StringIndex::kMissing && options_.pieces_are_bytes)
        letters = letter = EncodeUtf8(ByteLetter(byte));
    } else {
      if (options_.pieces_are_bytes) letters = letter = EncodeUtf8(ByteLetter(byte));
      id = SymbolId(letters, first, last).value_or(StringIndex::kMissing);
    }
    if (id != StringIndex::kMissing) {
      if (unknown) symbols.push_back(*std::exchange(unknown, std::nullopt));
      symbols.push_back({id, length});
      continue;
    }
    // As in the reference, byte tokens come before an unknown token that is still pending, and a character
    // without any token is dropped where there is no unknown token.
    if (options_.byte_fallback && AppendByteTokens(letters, first, last, symbols)) continue;
    if (!options_.unk_token) continue;
    if (!unk_id_) {
      return InvalidModelError("BPE: unk_token '{}' is not in the vocabulary", *options_.unk_token);
    }
    if (unknown && options_.fuse_unk) {
      unknown->length_bytes += length;
      continue;
    }
    if (unknown) symbols.push_back(*unknown);
    unknown = BpeSymbol{*unk_id_, length};
  }
  if (unknown) symbols.push_back(*unknown);
  return {};
}

Status BpeModel::MergePiece(std::string_view word, Scratch& scratch) const {
  LAMINA_RETURN_IF_ERROR(SplitIntoSymbols(word, scratch.symbols));
  scratch.merger.MergeAll(merges_, scratch.symbols);
  return {};
}

void BpeModel::LookAhead(std::string_view text, std::span<const PieceRange> pieces, Scratch& scratch) const {
  scratch.words.clear();
  char* letters = scratch.letters.data();
  for (const PieceRange& piece : pieces) {
    const size_t length = piece.end - piece.begin;
    Word& word = scratch.words.emplace_back(Word{piece, 0, {}, false});
    if (length > kMaxWholeWordBytes) continue;
    word.spelling = text.substr(piece.begin, length);
    if (options_.pieces_are_bytes) {
      word.spelling = {letters, WriteByteLetters(word.spelling, letters)};
      letters += word.spelling.size();
    }
    word.hash = HashBytes(word.spelling);
    if (looks_up_words_) vocabulary().PrefetchMayHave(word.hash);
    if (!scratch.cache.empty()) __builtin_prefetch(&scratch.cache[word.hash & (scratch.cache.size() - 1)]);
  }
  if (!looks_up_words_) return;
  for (Word& word : scratch.words) {
    word.may_be_token = !word.spelling.empty() && vocabulary().MayHave(word.hash);
    if (word.may_be_token) vocabulary().Prefetch(word.hash);
  }
}

Status BpeModel::TokenizeWord(std::string_view text, const Word& word, Scratch& scratch,
                              std::vector<ModelToken>& tokens) const {
  const PieceRange piece = word.piece;
  const uint32_t length = piece.end - piece.begin;
  // A word that is a token: stays whole at once, or if merging is known to lead there.
  int32_t whole = StringIndex::kMissing;
  if (word.may_be_token) {
    whole = vocabulary().FindHashed(word.spelling, word.hash).value_or(StringIndex::kMissing);
    if (whole != StringIndex::kMissing &&
        (options_.ignore_merges ||
         whole_[static_cast<size_t>(whole)].load(std::memory_order_relaxed) == kWhole)) {
      tokens.push_back({whole, piece.begin, piece.end});
      return {};
    }
  }
  const std::string_view bytes = text.substr(piece.begin, length);
  Scratch::CacheSlot* slot = nullptr;
  if (!scratch.cache.empty() && length <= kMaxCachedBytes) {
    slot = &scratch.cache[word.hash & (scratch.cache.size() - 1)];
    if (slot->hash == word.hash && slot->word_length == length &&
        std::memcmp(text.data() + slot->word_begin, bytes.data(), length) == 0) {
      const uint32_t shift = piece.begin - slot->word_begin;
      for (uint32_t i = 0; i < slot->token_count; ++i) {
        const ModelToken known = tokens[slot->first_token + i];
        tokens.push_back({known.id, known.begin + shift, known.end + shift});
      }
      return {};
    }
    *slot = {word.hash, piece.begin, length, static_cast<uint32_t>(tokens.size()), 0};
  }
  LAMINA_RETURN_IF_ERROR(MergePiece(bytes, scratch));
  uint32_t begin = piece.begin;
  for (const BpeSymbol& symbol : scratch.symbols) {
    // Symbols of fallback bytes can claim more bytes than the word has.
    const uint32_t end = std::min(begin + symbol.length_bytes, piece.end);
    tokens.push_back({symbol.id, std::min(begin, piece.end - 1), end});
    begin = end;
  }
  if (slot != nullptr) slot->token_count = static_cast<uint32_t>(scratch.symbols.size());
  if (whole != StringIndex::kMissing) {
    const bool stays_whole = scratch.symbols.size() == 1 && scratch.symbols[0].id == whole;
    whole_[static_cast<size_t>(whole)].store(stays_whole ? kWhole : kDivided, std::memory_order_relaxed);
  }
  return {};
}

Status BpeModel::Tokenize(const PreTokenizedText& text, std::vector<ModelToken>& tokens) const {
  const std::span<const PieceRange> pieces(text.pieces);
  Scratch scratch;
  if (pieces.size() >= kCacheFromPieces) {
    scratch.cache.resize(std::min(std::bit_ceil(pieces.size() * 2), kMaxCacheSlots));
  }
  const size_t batch = std::min(kWordsAhead, pieces.size());
  scratch.words.reserve(batch);
  if (options_.pieces_are_bytes) scratch.letters.resize(batch * kMaxSpelledBytes);
  const std::string_view whole_text = text.text.text();
  for (size_t begin = 0; begin < pieces.size(); begin += batch) {
    LookAhead(whole_text, pieces.subspan(begin, std::min(batch, pieces.size() - begin)), scratch);
    for (const Word& word : scratch.words) {
      LAMINA_RETURN_IF_ERROR(TokenizeWord(whole_text, word, scratch, tokens));
    }
  }
  return {};
}

}  // namespace lamina::text
