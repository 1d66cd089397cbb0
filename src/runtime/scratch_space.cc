#include "runtime/scratch_space.h"

#include <algorithm>

namespace lamina {
namespace {

constexpr uint64_t kAlignment = 256;
constexpr uint64_t kMinBlockBytes = 64 * 1024;

}  // namespace

ScratchSpace::~ScratchSpace() { FreeBlocks(); }

void ScratchSpace::FreeBlocks() {
  for (const Block& block : blocks_) allocator_.Free(block.memory);
  blocks_.clear();
}

uint64_t ScratchSpace::held_bytes() const {
  uint64_t total = 0;
  for (const Block& block : blocks_) total += block.size_bytes;
  return total;
}

void ScratchSpace::Rewind(Mark mark) {
  top_ = mark;
  // Several blocks mean that the space grew: the next step finds one that holds all of it.
  if (mark.block == 0 && mark.used_bytes == 0 && blocks_.size() > 1) {
    const uint64_t total = held_bytes();
    FreeBlocks();
    if (Result<void*> memory = allocator_.Alloc(total); memory.ok()) {
      blocks_.push_back({static_cast<std::byte*>(*memory), total});
    }
  }
}

Result<void*> ScratchSpace::Take(uint64_t bytes) {
  const uint64_t rounded_bytes = std::max<uint64_t>((bytes + kAlignment - 1) / kAlignment, 1) * kAlignment;
  while (top_.block < blocks_.size()) {
    Block& block = blocks_[top_.block];
    if (block.size_bytes - top_.used_bytes >= rounded_bytes) {
      void* memory = block.memory + top_.used_bytes;
      top_.used_bytes += rounded_bytes;
      return memory;
    }
    ++top_.block;
    top_.used_bytes = 0;
  }
  const uint64_t size_bytes = std::max(rounded_bytes, kMinBlockBytes);
  LAMINA_ASSIGN_OR_RETURN(void* memory, allocator_.Alloc(size_bytes));
  blocks_.push_back({static_cast<std::byte*>(memory), size_bytes});
  top_ = {blocks_.size() - 1, rounded_bytes};
  return memory;
}

}  // namespace lamina
