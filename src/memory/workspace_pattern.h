// Where the declared workspace of every kernel lies: (node, slot) -> offset and size in one block. A slot is
// live in its node's step only, so nodes of different steps share the same bytes, and
//
//   peak = max over steps of the sum of the step's slots, each rounded up to kWorkspaceAlignment.
//
// Immutable once made; every run uses it as the blueprint of its own block.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lamina/status.h"

namespace lamina {

// What Allocator::Alloc guarantees for the block and every slot in it.
inline constexpr int64_t kWorkspaceAlignment = 256;

// The only slot of a node whose kernel declares nothing: what it asks for, whatever the slot, is taken from
// it.
inline constexpr int32_t kReserveSlot = -1;

// A slot that a node's kernel declared.
struct WorkspaceSlot {
  int32_t node_index = 0;  // of the graph whose frame this is
  int32_t slot_id = 0;     // chosen by the kernel class; or kReserveSlot
  int64_t size_bytes = 0;
  int64_t step = 0;  // of the node in execution order; nodes of one step run at the same time
};

class WorkspacePattern {
 public:
  struct Block {
    int64_t offset_bytes = 0;
    int64_t size_bytes = 0;  // as declared
  };

  // Slots of a step are stacked in the order given. INVALID_ARGUMENT: a negative size, a node and slot given
  // twice, sums beyond 2^60 bytes.
  static Result<WorkspacePattern> Create(std::span<const WorkspaceSlot> slots);
  // For slots that were planned together with other buffers: offsets[i] is where slots[i] lies in the common
  // block, whose peak the caller knows; peak_bytes() is then the end of the highest slot. INVALID_ARGUMENT as
  // above, and for offsets that are negative, unaligned or not one per slot.
  static Result<WorkspacePattern> FromOffsets(std::span<const WorkspaceSlot> slots,
                                              std::span<const int64_t> offsets);

  // Nothing: the node declared no such slot. No allocation; logarithmic.
  std::optional<Block> GetOffset(int32_t node_index, int32_t slot_id) const;
  int64_t peak_bytes() const { return peak_bytes_; }
  bool empty() const { return entries_.empty(); }

 private:
  struct Entry {
    int32_t node_index;
    int32_t slot_id;
    Block block;
  };
  static Result<WorkspacePattern> FromEntries(std::vector<Entry> entries);

  std::vector<Entry> entries_;  // ascending by node and slot
  int64_t peak_bytes_ = 0;
};

}  // namespace lamina
