#include "weights/load/staged_load.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/os.h"
#include "weights/load/block_copy.h"

namespace lamina {
namespace {

// A load may stop without a word to those who wait here.
constexpr auto kWakeInterval = std::chrono::milliseconds(20);

uint64_t PageSize() { return static_cast<uint64_t>(PageSizeBytes()); }

// Where the block's first byte lies in a slot: as far into a page as in the file.
uint64_t PositionInSlot(const LoadBlock& block) { return block.offset_bytes % PageSize(); }

}  // namespace

StagedLoad::StagedLoad(LoadJob& job, StagingBuffers& buffers, BlockReader& reader, const Division& division)
    : job_(job), buffers_(buffers), reader_(reader), division_(division) {
  // Alternating between the buffers, so that both streams are used from the start.
  const size_t slots_per_buffer = buffers.num_slots() / StagingBuffers::kBuffers;
  for (size_t i = 0; i < slots_per_buffer; ++i) {
    for (size_t buffer = 0; buffer < StagingBuffers::kBuffers; ++buffer) {
      free_slots_.push_back(buffer * slots_per_buffer + i);
    }
  }
}

Status StagedLoad::Work(int reader) {
  std::unique_lock lock(mutex_);
  while (!job_.stopped()) {
    std::shared_ptr<Filling> filling = shared_;
    if (!filling) {
      if (job_.AllClaimed()) break;
      if (!SlotIsThere() || !reader_.Wants(reader) || (division_.one_block_at_a_time && blocks_open_ > 0)) {
        changed_.wait_for(lock, kWakeInterval);
        continue;
      }
      Result<std::shared_ptr<Filling>> opened = Open(lock);
      if (!opened.ok()) return Stop(opened.status());
      filling = std::move(opened).value();
      if (!filling) break;
      if (filling->num_ranges > 1) {
        shared_ = filling;
        changed_.notify_all();
      }
    }
    const Range range = TakeRange(*filling);
    lock.unlock();
    LoadWay way = LoadWay::kBuffered;
    Status status = ReadRange(*filling, range, way);
    lock.lock();
    if (!status.ok()) return Stop(std::move(status));
    filling->way = std::max(filling->way, way);
    if (--filling->unread_ranges > 0) continue;

    lock.unlock();
    status = Submit(*filling);
    lock.lock();
    if (!status.ok()) return Stop(std::move(status));
    --blocks_open_;
    copying_slots_.push_back(filling->slot);
    changed_.notify_all();
  }
  changed_.notify_all();
  return Status();
}

Status StagedLoad::Stop(Status status) {
  job_.Fail(status);
  changed_.notify_all();
  return status;
}

Result<std::shared_ptr<StagedLoad::Filling>> StagedLoad::Open(std::unique_lock<std::mutex>& lock) {
  const std::span<const LoadBlock> claimed = job_.Claim();
  if (claimed.empty()) return std::shared_ptr<Filling>();
  auto filling = std::make_shared<Filling>();
  filling->block = &claimed.front();
  ++blocks_open_;
  if (!free_slots_.empty()) {
    filling->slot = free_slots_.front();
    free_slots_.pop_front();
  } else {
    filling->slot = copying_slots_.front();
    copying_slots_.pop_front();
    lock.unlock();
    const Status copied =
        job_.Timed(LoadJob::Phase::kWait, [&] { return buffers_.WaitUntilCopied(filling->slot); });
    lock.lock();
    LAMINA_RETURN_IF_ERROR(copied);
  }
  const uint64_t size_bytes = filling->block->size_bytes;
  const uint64_t wanted_ranges = size_bytes < division_.parallel_bytes
                                     ? 1
                                     : static_cast<uint64_t>(std::max(1, division_.readers_per_block));
  // Ranges end at page boundaries of the file, so that no two of them write to one page.
  const uint64_t covered_bytes = PositionInSlot(*filling->block) + size_bytes;
  const uint64_t pages = (covered_bytes + PageSize() - 1) / PageSize();
  filling->range_bytes = (pages + wanted_ranges - 1) / wanted_ranges * PageSize();
  filling->num_ranges = (covered_bytes + filling->range_bytes - 1) / filling->range_bytes;
  filling->unread_ranges = filling->num_ranges;
  return filling;
}

StagedLoad::Range StagedLoad::TakeRange(Filling& filling) {
  const LoadBlock& block = *filling.block;
  const uint64_t first_page = block.offset_bytes - PositionInSlot(block);
  const uint64_t begin = first_page + filling.next_range * filling.range_bytes;
  const uint64_t end = std::min(begin + filling.range_bytes, block.offset_bytes + block.size_bytes);
  const uint64_t offset = std::max(begin, block.offset_bytes);
  if (++filling.next_range == filling.num_ranges && shared_.get() == &filling) shared_.reset();
  return {offset, end - offset};
}

Status StagedLoad::ReadRange(const Filling& filling, const Range& range, LoadWay& way) {
  const LoadBlock& block = *filling.block;
  const uint64_t first_page = block.offset_bytes - PositionInSlot(block);
  const uint64_t range_page = range.offset - range.offset % PageSize();
  std::byte* const memory = buffers_.memory(filling.slot) + (range_page - first_page);
  Result<LoadWay> read = job_.Timed(LoadJob::Phase::kRead, [&] {
    return reader_.Read(block.file, range.offset, range.size_bytes, memory);
  });
  if (!read.ok()) return read.status().WithContext(InitializersOf(block, job_.items()));
  way = *read;
  return Status();
}

Status StagedLoad::Submit(const Filling& filling) {
  const LoadBlock& block = *filling.block;
  std::byte* const bytes = buffers_.memory(filling.slot) + PositionInSlot(block);
  NormalizeBools(block, job_.items(), bytes);
  const Status status = job_.Timed(LoadJob::Phase::kCopy, [&] {
    return buffers_.Submit(filling.slot, [&](Stream& stream) {
      return CopyPieces(block, job_.items(), bytes, buffers_.transfer(), &stream);
    });
  });
  if (!status.ok()) return status.WithContext(InitializersOf(block, job_.items()));
  job_.Count(block, filling.way);
  return Status();
}

}  // namespace lamina
