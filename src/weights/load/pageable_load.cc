#include "weights/load/pageable_load.h"

#include <memory>
#include <new>

#include "base/os.h"
#include "weights/load/block_copy.h"

namespace lamina {
namespace {

struct FreeAligned {
  void operator()(std::byte* memory) const { operator delete[](memory, std::align_val_t(PageSizeBytes())); }
};

}  // namespace

Status RunPageableLoad(LoadJob& job, DataTransfer& transfer, BlockReader& reader) {
  const auto page = static_cast<uint64_t>(PageSizeBytes());
  std::unique_ptr<std::byte[], FreeAligned> memory;
  uint64_t memory_bytes = 0;
  while (!job.stopped()) {
    const std::span<const LoadBlock> claimed = job.Claim();
    if (claimed.empty()) break;
    const LoadBlock& block = claimed.front();
    const uint64_t needed_bytes = block.size_bytes + 2 * page;  // what lies around it in its pages
    if (memory_bytes < needed_bytes) {
      memory.reset(new (std::align_val_t(page)) std::byte[needed_bytes]);
      memory_bytes = needed_bytes;
    }
    Result<LoadWay> read = job.Timed(LoadJob::Phase::kRead, [&] {
      return reader.Read(block.file, block.offset_bytes, block.size_bytes, memory.get());
    });
    if (!read.ok()) return read.status().WithContext(InitializersOf(block, job.items()));
    std::byte* const bytes = memory.get() + block.offset_bytes % page;
    NormalizeBools(block, job.items(), bytes);
    const Status status = job.Timed(LoadJob::Phase::kCopy, [&] {
      return CopyPieces(block, job.items(), bytes, transfer, /*stream=*/nullptr);
    });
    if (!status.ok()) return status.WithContext(InitializersOf(block, job.items()));
    job.Count(block, LoadWay::kPageable);
  }
  return Status();
}

}  // namespace lamina
