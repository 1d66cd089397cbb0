#include "memory/workspace_pattern.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "memory/packing_problem.h"

namespace lamina {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 60;

Status CheckSize(const WorkspaceSlot& slot) {
  if (slot.size_bytes < 0 || slot.size_bytes > kMaxBytes) {
    return InvalidArgumentError("workspace: node {} slot {}: size {} is not in [0, {}]", slot.node_index,
                                slot.slot_id, slot.size_bytes, kMaxBytes);
  }
  return Status();
}

}  // namespace

Result<WorkspacePattern> WorkspacePattern::Create(std::span<const WorkspaceSlot> slots) {
  std::unordered_map<int64_t, int64_t> used_bytes;  // of each step
  std::vector<Entry> entries;
  entries.reserve(slots.size());
  for (const WorkspaceSlot& slot : slots) {
    LAMINA_RETURN_IF_ERROR(CheckSize(slot));
    int64_t& used = used_bytes[slot.step];
    entries.push_back({slot.node_index, slot.slot_id, {used, slot.size_bytes}});
    used += AlignUp(slot.size_bytes, kWorkspaceAlignment);
    if (used > kMaxBytes) {
      return InvalidArgumentError("workspace: the slots of step {} need more than {} bytes", slot.step,
                                  kMaxBytes);
    }
  }
  return FromEntries(std::move(entries));
}

Result<WorkspacePattern> WorkspacePattern::FromOffsets(std::span<const WorkspaceSlot> slots,
                                                       std::span<const int64_t> offsets) {
  if (slots.size() != offsets.size()) {
    return InvalidArgumentError("workspace: {} slots, but {} offsets", slots.size(), offsets.size());
  }
  std::vector<Entry> entries;
  entries.reserve(slots.size());
  for (size_t i = 0; i < slots.size(); ++i) {
    LAMINA_RETURN_IF_ERROR(CheckSize(slots[i]));
    if (offsets[i] < 0 || offsets[i] > kMaxBytes || offsets[i] % kWorkspaceAlignment != 0) {
      return InvalidArgumentError("workspace: node {} slot {}: offset {} is not a multiple of {} in [0, {}]",
                                  slots[i].node_index, slots[i].slot_id, offsets[i], kWorkspaceAlignment,
                                  kMaxBytes);
    }
    entries.push_back({slots[i].node_index, slots[i].slot_id, {offsets[i], slots[i].size_bytes}});
  }
  return FromEntries(std::move(entries));
}

Result<WorkspacePattern> WorkspacePattern::FromEntries(std::vector<Entry> entries) {
  const auto key = [](const Entry& entry) { return std::pair(entry.node_index, entry.slot_id); };
  std::sort(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) { return key(a) < key(b); });
  const auto twin = std::adjacent_find(entries.begin(), entries.end(),
                                       [&](const Entry& a, const Entry& b) { return key(a) == key(b); });
  if (twin != entries.end()) {
    return InvalidArgumentError("workspace: node {} declares slot {} twice", twin->node_index, twin->slot_id);
  }
  WorkspacePattern pattern;
  pattern.entries_ = std::move(entries);
  for (const Entry& entry : pattern.entries_) {
    pattern.peak_bytes_ = std::max(
        pattern.peak_bytes_, entry.block.offset_bytes + AlignUp(entry.block.size_bytes, kWorkspaceAlignment));
  }
  return pattern;
}

std::optional<WorkspacePattern::Block> WorkspacePattern::GetOffset(int32_t node_index,
                                                                   int32_t slot_id) const {
  const auto wanted = std::pair(node_index, slot_id);
  const auto it = std::lower_bound(
      entries_.begin(), entries_.end(), wanted,
      [](const Entry& entry, const auto& k) { return std::pair(entry.node_index, entry.slot_id) < k; });
  if (it == entries_.end() || it->node_index != node_index || it->slot_id != slot_id) return std::nullopt;
  return it->block;
}

}  // namespace lamina
