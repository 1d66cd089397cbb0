// Scratch memory of kernels in a run whose workspace was not planned: a stack of blocks, rewound after each
// step, that settles on one block of the size the largest step needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lamina/status.h"
#include "provider/allocator.h"

namespace lamina {

// Used by one run at a time.
class ScratchSpace {
 public:
  explicit ScratchSpace(Allocator& allocator) : allocator_(allocator) {}
  ~ScratchSpace();
  ScratchSpace(const ScratchSpace&) = delete;
  ScratchSpace& operator=(const ScratchSpace&) = delete;

  struct Mark {
    size_t block = 0;
    uint64_t used_bytes = 0;
  };
  Mark mark() const { return top_; }
  // Everything taken since the mark becomes free.
  void Rewind(Mark mark);

  // Aligned to 256 bytes. RESOURCE_EXHAUSTED from the allocator.
  Result<void*> Take(uint64_t bytes);
  uint64_t held_bytes() const;

 private:
  struct Block {
    std::byte* memory = nullptr;
    uint64_t size_bytes = 0;
  };
  void FreeBlocks();

  Allocator& allocator_;
  std::vector<Block> blocks_;
  Mark top_;
};

}  // namespace lamina
