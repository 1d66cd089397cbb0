#include "text/string_index.h"

#include <bit>
#include <utility>

namespace lamina::text {

void StringIndex::Reserve(size_t count, size_t bytes) {
  bytes_.reserve(bytes);
  const size_t wanted = std::bit_ceil(count * 2 + 2);
  if (wanted > slots_.size()) Rehash(wanted);
}

void StringIndex::Rehash(size_t slots) {
  LargeVector<Slot> old = std::exchange(slots_, LargeVector<Slot>(slots));
  filter_.Reset(slots / 2);
  const size_t mask = slots - 1;
  for (const Slot& entry : old) {
    if (entry.value == kMissing) continue;
    const uint64_t hash = HashBytes(Key(entry.offset, entry.length));
    size_t slot = hash >> 32 & mask;
    while (slots_[slot].value != kMissing) slot = (slot + 1) & mask;
    slots_[slot] = entry;
    filter_.Add(hash);
  }
}

uint32_t StringIndex::InsertHashed(std::string_view key, uint64_t hash, int32_t value) {
  if (slots_.empty() || (count_ + 1) * 2 > slots_.size()) Rehash(slots_.empty() ? 16 : slots_.size() * 2);
  const size_t mask = slots_.size() - 1;
  size_t slot = hash >> 32 & mask;
  for (; slots_[slot].value != kMissing; slot = (slot + 1) & mask) {
    Slot& entry = slots_[slot];
    if (entry.hash == static_cast<uint32_t>(hash) && Key(entry.offset, entry.length) == key) {
      entry.value = value;
      return entry.offset;
    }
  }
  slots_[slot] = {static_cast<uint32_t>(hash), static_cast<uint32_t>(bytes_.size()),
                  static_cast<uint32_t>(key.size()), value};
  bytes_.append(key);
  filter_.Add(hash);
  ++count_;
  return slots_[slot].offset;
}

}  // namespace lamina::text
