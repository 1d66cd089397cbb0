// In which order and pieces a set of tensors is read: files one after the other, each from front to back;
// tensors that lie close together in one piece, however small they are; large ones in several.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/file.h"
#include "lamina/status.h"
#include "provider/external_data_loader.h"

namespace lamina {

// Part of a tensor inside a block.
struct LoadPiece {
  size_t item = 0;               // index into the items given to ScheduleLoad
  uint64_t offset_in_block = 0;  // of its first byte
  uint64_t offset_in_item = 0;
  uint64_t size_bytes = 0;
};

// A stretch of a file that is read at once and copied piece by piece. Blocks do not cross multiples of the
// block size in the file, so that a block extended to whole pages is no larger than that size.
struct LoadBlock {
  size_t file = 0;  // index into LoadSchedule::files
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
  std::vector<LoadPiece> pieces;
};

struct LoadSchedule {
  std::vector<std::shared_ptr<const File>> files;  // each once, in the order of the items
  std::vector<LoadBlock> blocks;                   // by file, then by offset
  uint64_t item_bytes = 0;                         // of all items: what is copied
  uint64_t read_bytes = 0;                         // of all blocks: gaps read too, shared bytes read once
};

struct ScheduleOptions {
  uint64_t block_bytes = uint64_t{4} << 20;  // a multiple of the page size
  // Unused bytes between two tensors that are read rather than skipped.
  uint64_t largest_gap_bytes = uint64_t{64} << 10;
};

// Items of no bytes have no piece. IO naming the initializer where its range leaves the file or overflows.
Result<LoadSchedule> ScheduleLoad(std::span<const ExternalDataItem> items,
                                  const ScheduleOptions& options = {});

}  // namespace lamina
