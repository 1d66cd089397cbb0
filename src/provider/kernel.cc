#include "provider/kernel.h"

#include "base/error.h"

namespace lamina {

Status WorkspaceRequirements::Add(int slot_id, size_t size_bytes) {
  if (slot_id < 0 || slot_id >= kMaxSlots) {
    return InternalError("workspace slot {} is out of range [0, {})", slot_id, kMaxSlots);
  }
  for (const WorkspaceRequirement& slot : slots()) {
    if (slot.slot_id == slot_id) return InternalError("workspace slot {} is declared twice", slot_id);
  }
  slots_[static_cast<size_t>(count_++)] = {size_bytes, slot_id};
  return Status();
}

size_t WorkspaceRequirements::total_bytes(size_t alignment_bytes) const {
  size_t total = 0;
  for (const WorkspaceRequirement& slot : slots()) {
    total += (slot.size_bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
  }
  return total;
}

Status Kernel::DeclareWorkspaceRequirements(const NodeInfo&, WorkspaceRequirements&) const {
  return Status();
}

Status Kernel::DeclarePrepack(const NodeInfo&, int, PrepackDeclaration&) const { return Status(); }

Status Kernel::PrePackWeight(int input, PrepackContext&, void*, void*) const {
  return InternalError("input {} was declared for prepacking by a kernel that does not pack", input);
}

}  // namespace lamina
