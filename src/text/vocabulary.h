// The tokens of a model: spelling to id and back.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/status.h"
#include "text/string_index.h"
#include "text/tokenizer.h"

namespace lamina::text {

// Immutable after loading.
class Vocabulary {
 public:
  // Ids up to this are accepted: tables are indexed by id, and a file must not be able to ask for gigabytes.
  static constexpr uint64_t kMaxId = (1u << 24) - 1;

  struct Entry {
    std::string_view token;
    uint64_t id = 0;
  };

  // Adds all in their order.
  static Result<Vocabulary> FromEntries(std::span<const Entry> entries);
  void Reserve(size_t tokens, size_t bytes);
  // A spelling or id that is there already is given its latest partner. INVALID_MODEL for an id out of range.
  Status Add(std::string_view token, uint64_t id);

  std::optional<TokenId> Find(std::string_view token) const {
    const int32_t id = index_.Find(token);
    if (id == StringIndex::kMissing) return std::nullopt;
    return id;
  }
  // With the hash of the spelling (HashBytes) at hand; Prefetch begins to load what Find will look at.
  std::optional<TokenId> FindHashed(std::string_view token, uint64_t hash) const {
    const int32_t id = index_.FindHashed(token, hash);
    if (id == StringIndex::kMissing) return std::nullopt;
    return id;
  }
  void Prefetch(uint64_t hash) const { index_.Prefetch(hash); }
  // Then the spelling, which Find compares with.
  void PrefetchSpelling(uint64_t hash) const { index_.PrefetchKey(hash); }
  // For spellings that are likely to be no tokens: false where none has the hash.
  bool MayHave(uint64_t hash) const { return index_.MayHave(hash); }
  void PrefetchMayHave(uint64_t hash) const { index_.PrefetchMayHave(hash); }
  bool Has(TokenId id) const {
    return id >= 0 && static_cast<size_t>(id) < by_id_.size() && by_id_[static_cast<size_t>(id)].used;
  }
  // Empty where there is no such token.
  std::string_view Text(TokenId id) const {
    if (!Has(id)) return {};
    const Spelling& spelling = by_id_[static_cast<size_t>(id)];
    return index_.Key(spelling.offset, spelling.length);
  }
  // Number of spellings.
  size_t size() const { return index_.size(); }
  // One more than the largest id.
  size_t id_limit() const { return by_id_.size(); }

 private:
  Status AddHashed(std::string_view token, uint64_t hash, uint64_t id);
  struct Spelling {
    uint32_t offset = 0;
    uint32_t length : 31 = 0;
    uint32_t used : 1 = 0;
  };
  StringIndex index_;
  std::vector<Spelling> by_id_;
};

}  // namespace lamina::text
