#include "text/vocabulary.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace lamina::text {

void Vocabulary::Reserve(size_t tokens, size_t bytes) {
  index_.Reserve(tokens, bytes);
  by_id_.reserve(tokens);
}

// The tables fit no near cache: entries are taken in batches, whose accesses overlap.
Result<Vocabulary> Vocabulary::FromEntries(std::span<const Entry> entries) {
  constexpr size_t kBatch = 32;
  Vocabulary vocabulary;
  size_t bytes = 0;
  for (const Entry& entry : entries) bytes += entry.token.size();
  vocabulary.Reserve(entries.size(), bytes);
  std::array<uint64_t, kBatch> hashes{};
  for (; !entries.empty(); entries = entries.subspan(std::min(kBatch, entries.size()))) {
    const std::span<const Entry> batch = entries.first(std::min(kBatch, entries.size()));
    for (size_t i = 0; i < batch.size(); ++i) {
      hashes[i] = HashBytes(batch[i].token);
      vocabulary.Prefetch(hashes[i]);
      vocabulary.PrefetchMayHave(hashes[i]);
    }
    for (size_t i = 0; i < batch.size(); ++i) {
      LAMINA_RETURN_IF_ERROR(vocabulary.AddHashed(batch[i].token, hashes[i], batch[i].id));
    }
  }
  return vocabulary;
}

Status Vocabulary::Add(std::string_view token, uint64_t id) { return AddHashed(token, HashBytes(token), id); }

Status Vocabulary::AddHashed(std::string_view token, uint64_t hash, uint64_t id) {
  if (id > kMaxId) return InvalidModelError("token '{}': id {} is above {}", token, id, kMaxId);
  const uint32_t offset = index_.InsertHashed(token, hash, static_cast<int32_t>(id));
  if (id >= by_id_.size()) by_id_.resize(id + 1);
  by_id_[id].offset = offset;
  by_id_[id].length = static_cast<uint32_t>(token.size()) & 0x7FFFFFFF;
  by_id_[id].used = 1;
  return {};
}

}  // namespace lamina::text
