// Copies between two strided layouts: the engine of Transpose, Slice, Expand, Tile, Concat, Split and others.
#pragma once

#include "base/thread_pool.h"
#include "lamina/types.h"
#include "providers/cpu/kernel_util.h"

namespace lamina {

// target[sum(index * target_strides)] = source[sum(index * source_strides)] for every index below `extents`.
// Strides are in elements and may be 0 or negative for the source; targets do not overlap. The axes should be
// in descending order of the target's strides. Any element type; strings are assigned.
// REQUIRES: the three lists have one length; for types below a byte both pointers are the start of a buffer
// and the offsets say where to begin.
struct StridedCopy {
  DataType type = DataType::kUndefined;
  const void* source = nullptr;
  void* target = nullptr;
  int64_t source_offset = 0;  // elements
  int64_t target_offset = 0;
  IntList extents;
  IntList source_strides;
  IntList target_strides;

  void Run(ThreadPool& threads) const;
};

// Sets every element of a run to the one at `value`. REQUIRES: a whole-byte type or strings.
void FillElements(DataType type, const void* value, void* target, int64_t count);

}  // namespace lamina
