#include "text/vocabulary.h"

#include "base/error.h"

namespace lamina::text {

void Vocabulary::Reserve(size_t tokens, size_t bytes) {
  index_.Reserve(tokens, bytes);
  by_id_.reserve(tokens);
}

Status Vocabulary::Add(std::string_view token, uint64_t id) {
  if (id > kMaxId) return InvalidModelError("token '{}': id {} is above {}", token, id, kMaxId);
  const uint32_t offset = index_.Insert(token, static_cast<int32_t>(id));
  if (id >= by_id_.size()) by_id_.resize(id + 1);
  by_id_[id].offset = offset;
  by_id_[id].length = static_cast<uint32_t>(token.size()) & 0x7FFFFFFF;
  by_id_[id].used = 1;
  return {};
}

}  // namespace lamina::text
