// Reads pieces of files into staging memory: through the page cache or past it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "lamina/status.h"
#include "weights/load/load_job.h"
#include "weights/load/read_tuner.h"

namespace lamina {

enum class ReadMode : uint8_t {
  kBuffered,
  kDirect,    // buffered where the file system refuses
  kAdaptive,  // buffered where the bytes are in the page cache, else what the tuner finds
};

// Whether at least half of the region is in the page cache, judged by some of its pages.
bool IsMostlyResident(const MappedRegion& region);

// For one load; thread-safe.
class BlockReader {
 public:
  // `most_depth`: reads of cold bytes at a time.
  BlockReader(ReadMode mode, std::span<const std::shared_ptr<const File>> files, int most_depth,
              const Clock& clock);

  // Whether the reader with this number, from 0, is of use now. Disks want few reads at a time, in the order
  // of the file and, with one at a time, by one thread: the first readers go on while the others wait before
  // they take a block.
  bool Wants(int reader);

  // Reads bytes [offset, offset + size_bytes) of a file to memory + offset % page size. `memory` is aligned
  // to a page and whole pages of it are written: up to the page in which the last byte lies. Returns the way
  // taken.
  Result<LoadWay> Read(size_t file, uint64_t offset, uint64_t size_bytes, std::byte* memory);

 private:
  struct Source {
    std::shared_ptr<const File> file;
    std::once_flag opened;
    std::unique_ptr<DirectReader> direct;  // null where it is impossible
    MappedRegion mapping;                  // of the whole file, to ask what is resident
    bool mapped = false;
  };
  class ColdRead;
  void OpenOnce(Source& source);
  bool IsResident(const Source& source, uint64_t offset, uint64_t size_bytes) const;
  Status ReadBuffered(const Source& source, uint64_t offset, uint64_t size_bytes, std::byte* memory) const;
  // The way taken.
  Result<LoadWay> ReadDirect(const Source& source, uint64_t offset, uint64_t size_bytes, std::byte* memory);
  Result<LoadWay> ReadCold(const Source& source, uint64_t offset, uint64_t size_bytes, std::byte* memory);

  const ReadMode mode_;
  const Clock& clock_;
  std::vector<std::unique_ptr<Source>> sources_;

  // Of cold reads.
  std::mutex mutex_;
  std::condition_variable read_ended_;
  bool cold_ = true;  // what was read last was not in the page cache; so a cold file starts in order
  int reads_under_way_ = 0;
  ReadTuner tuner_;
};

}  // namespace lamina
