#include "weights/load/block_reader.h"

#include <algorithm>

#include "base/log.h"
#include "base/os.h"

namespace lamina {
namespace {

// Large enough to see through a disk's jitter, small beside the files for which it matters.
constexpr uint64_t kTrialBytes = uint64_t{256} << 20;
// Pages of a range whose presence in the page cache stands for the whole range: asking for each would take a
// tenth of the time that reading them does.
constexpr size_t kSampledPages = 16;

uint64_t RoundDownToPage(uint64_t bytes) { return bytes - bytes % static_cast<uint64_t>(PageSizeBytes()); }

uint64_t RoundUpToPage(uint64_t bytes) {
  return RoundDownToPage(bytes + static_cast<uint64_t>(PageSizeBytes()) - 1);
}

}  // namespace

bool IsMostlyResident(const MappedRegion& region) {
  const size_t size_bytes = region.bytes().size();
  const size_t step = std::max(static_cast<size_t>(PageSizeBytes()), size_bytes / kSampledPages);
  uint64_t asked = 0;
  uint64_t resident = 0;
  for (size_t i = 0; i < size_bytes; i += step) {
    const Result<uint64_t> bytes = region.Subregion(i, 1).ResidentBytes();
    ++asked;
    if (bytes.ok()) resident += *bytes;
  }
  return resident * 2 >= asked;
}

BlockReader::BlockReader(ReadMode mode, std::span<const std::shared_ptr<const File>> files, int most_depth,
                         const Clock& clock)
    : mode_(mode), clock_(clock), tuner_(/*direct_possible=*/true, most_depth, kTrialBytes) {
  for (const auto& file : files) {
    sources_.push_back(std::make_unique<Source>());
    sources_.back()->file = file;
  }
}

void BlockReader::OpenOnce(Source& source) {
  std::call_once(source.opened, [&] {
    Result<std::unique_ptr<DirectReader>> direct = source.file->OpenDirect();
    if (direct.ok()) source.direct = std::move(direct).value();
    if (mode_ != ReadMode::kAdaptive) return;
    Result<MappedRegion> mapping = source.file->Map(0, source.file->size_bytes());
    if (mapping.ok()) {
      source.mapping = std::move(mapping).value();
      source.mapped = true;
    }
  });
}

Result<LoadWay> BlockReader::Read(size_t file, uint64_t offset, uint64_t size_bytes, std::byte* memory) {
  Source& source = *sources_[file];
  if (mode_ != ReadMode::kBuffered) OpenOnce(source);
  if (mode_ == ReadMode::kDirect) return ReadDirect(source, offset, size_bytes, memory);
  if (mode_ == ReadMode::kAdaptive) {
    const bool cold = !IsResident(source, offset, size_bytes);
    {
      const std::lock_guard lock(mutex_);
      cold_ = cold;
    }
    if (cold) return ReadCold(source, offset, size_bytes, memory);
  }
  LAMINA_RETURN_IF_ERROR(ReadBuffered(source, offset, size_bytes, memory));
  return LoadWay::kBuffered;
}

bool BlockReader::Wants(int reader) {
  if (mode_ != ReadMode::kAdaptive) return true;
  const std::lock_guard lock(mutex_);
  return !cold_ || reader < tuner_.current().depth;
}

bool BlockReader::IsResident(const Source& source, uint64_t offset, uint64_t size_bytes) const {
  return source.mapped && IsMostlyResident(source.mapping.Subregion(offset, size_bytes));
}

Status BlockReader::ReadBuffered(const Source& source, uint64_t offset, uint64_t size_bytes,
                                 std::byte* memory) const {
  return source.file->ReadAt(offset, {memory + (offset - RoundDownToPage(offset)), size_bytes});
}

Result<LoadWay> BlockReader::ReadDirect(const Source& source, uint64_t offset, uint64_t size_bytes,
                                        std::byte* memory) {
  if (source.direct) {
    const uint64_t begin = RoundDownToPage(offset);
    const uint64_t end = offset + size_bytes;
    const Status status =
        source.direct->ReadAt(begin, {memory, RoundUpToPage(end) - begin}, /*needed_bytes=*/end - begin);
    if (status.ok()) return LoadWay::kDirect;
    if (status.code() != StatusCode::kUnsupported) return status;
    const std::lock_guard lock(mutex_);
    tuner_.GiveUpDirect();
  }
  LAMINA_RETURN_IF_ERROR(ReadBuffered(source, offset, size_bytes, memory));
  return LoadWay::kBuffered;
}

// One of the reads that the tuner allows at a time, from construction to destruction.
class BlockReader::ColdRead {
 public:
  explicit ColdRead(BlockReader& reader) : reader_(reader) {
    std::unique_lock lock(reader.mutex_);
    reader.read_ended_.wait(lock, [&] { return reader.reads_under_way_ < reader.tuner_.current().depth; });
    setting_ = reader.tuner_.current();
    ++reader.reads_under_way_;
  }
  ~ColdRead() {
    const std::lock_guard lock(reader_.mutex_);
    --reader_.reads_under_way_;
    const bool was_settled = reader_.tuner_.settled();
    if (done_bytes_ > 0) reader_.tuner_.Finished(setting_, done_bytes_, reader_.clock_.NowNs());
    if (reader_.tuner_.settled() && !was_settled) {
      LogInfo("loading weights: cold files are read {}, {} reads at a time",
              reader_.tuner_.current().direct ? "directly" : "through the page cache",
              reader_.tuner_.current().depth);
    }
    if (reader_.tuner_.current() == setting_) {
      reader_.read_ended_.notify_one();  // one may take this one's place
    } else {
      reader_.read_ended_.notify_all();
    }
  }
  ColdRead(const ColdRead&) = delete;
  ColdRead& operator=(const ColdRead&) = delete;

  bool direct() const { return setting_.direct; }
  void Done(uint64_t bytes) { done_bytes_ = bytes; }

 private:
  BlockReader& reader_;
  ReadSetting setting_;
  uint64_t done_bytes_ = 0;
};

Result<LoadWay> BlockReader::ReadCold(const Source& source, uint64_t offset, uint64_t size_bytes,
                                      std::byte* memory) {
  if (!source.direct) {
    const std::lock_guard lock(mutex_);
    tuner_.GiveUpDirect();
  }
  ColdRead permit(*this);
  if (permit.direct()) {
    Result<LoadWay> way = ReadDirect(source, offset, size_bytes, memory);
    if (way.ok()) permit.Done(size_bytes);
    return way;
  }
  LAMINA_RETURN_IF_ERROR(ReadBuffered(source, offset, size_bytes, memory));
  permit.Done(size_bytes);
  return LoadWay::kBuffered;
}

}  // namespace lamina
