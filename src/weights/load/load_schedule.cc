#include "weights/load/load_schedule.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace lamina {
namespace {

uint64_t EndOf(const ExternalDataItem& item) { return item.offset_bytes + item.size_bytes; }

// The files of the items, each once: two opened files with one identity are the same file.
class FileIndex {
 public:
  explicit FileIndex(std::vector<std::shared_ptr<const File>>& files) : files_(files) {}

  size_t IndexOf(const std::shared_ptr<const File>& file) {
    const FileIdentity identity = file->identity();
    const auto [found, is_first] = index_.try_emplace({identity.device, identity.inode}, files_.size());
    if (is_first) files_.push_back(file);
    return found->second;
  }

 private:
  std::vector<std::shared_ptr<const File>>& files_;
  std::map<std::pair<uint64_t, uint64_t>, size_t> index_;
};

// Cuts the run of items order[begin, end), which together cover the file up to run_end, into blocks.
void AddRun(std::span<const ExternalDataItem> items, std::span<const size_t> run, size_t file,
            uint64_t run_end, uint64_t block_bytes, LoadSchedule& schedule) {
  const uint64_t run_begin = items[run.front()].offset_bytes;
  const uint64_t first_cell = run_begin / block_bytes;
  const size_t first_block = schedule.blocks.size();
  for (uint64_t offset = run_begin; offset < run_end;) {
    const uint64_t end = std::min(run_end, (offset / block_bytes + 1) * block_bytes);
    schedule.blocks.push_back({file, offset, end - offset, {}});
    schedule.read_bytes += end - offset;
    offset = end;
  }
  for (const size_t index : run) {
    const ExternalDataItem& item = items[index];
    uint64_t offset = item.offset_bytes;
    while (offset < EndOf(item)) {
      LoadBlock& block = schedule.blocks[first_block + (offset / block_bytes - first_cell)];
      const uint64_t end = std::min(EndOf(item), block.offset_bytes + block.size_bytes);
      block.pieces.push_back({index, offset - block.offset_bytes, offset - item.offset_bytes, end - offset});
      offset = end;
    }
  }
}

}  // namespace

Result<LoadSchedule> ScheduleLoad(std::span<const ExternalDataItem> items, const ScheduleOptions& options) {
  LoadSchedule schedule;
  FileIndex index(schedule.files);
  std::vector<size_t> file_of(items.size());
  std::vector<size_t> order;
  order.reserve(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    const ExternalDataItem& item = items[i];
    if (!RangeFits(item.offset_bytes, item.size_bytes, item.file->size_bytes())) {
      return IoError("initializer '{}': {} bytes at offset {} leave the file {} of {} bytes", item.name,
                     item.size_bytes, item.offset_bytes, item.file->path(), item.file->size_bytes());
    }
    if (item.size_bytes == 0) continue;
    file_of[i] = index.IndexOf(item.file);
    schedule.item_bytes += item.size_bytes;
    order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(file_of[a], items[a].offset_bytes) < std::pair(file_of[b], items[b].offset_bytes);
  });

  for (size_t begin = 0; begin < order.size();) {
    const size_t file = file_of[order[begin]];
    uint64_t run_end = EndOf(items[order[begin]]);
    size_t end = begin + 1;
    for (; end < order.size() && file_of[order[end]] == file; ++end) {
      const ExternalDataItem& next = items[order[end]];
      if (next.offset_bytes > run_end && next.offset_bytes - run_end > options.largest_gap_bytes) break;
      run_end = std::max(run_end, EndOf(next));
    }
    AddRun(items, std::span(order).subspan(begin, end - begin), file, run_end, options.block_bytes, schedule);
    begin = end;
  }
  return schedule;
}

}  // namespace lamina
