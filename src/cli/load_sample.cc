#include "cli/load_sample.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/host_pages.h"
#include "base/os.h"
#include "base/thread_pool.h"

namespace lamina::cli {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kCopyBytes = 64 * kMiB;
constexpr uint64_t kReadBytes = 4 * kMiB;
constexpr uint64_t kPopulateBytes = uint64_t{1} << 30;

class Stopwatch {
 public:
  double Seconds() const { return static_cast<double>(SystemClock().NowNs() - start_ns_) * 1e-9; }

 private:
  int64_t start_ns_ = SystemClock().NowNs();
};

// Watches the memory of the process, without pages of mapped files, from a thread of its own.
class HostPeak {
 public:
  HostPeak() : watcher_([this](const std::stop_token& stop) { Watch(stop); }) {}
  // Beyond what there was at first. Ends the watch.
  uint64_t AddedBytes() {
    watcher_.request_stop();
    watcher_.join();
    return peak_bytes_ - std::min(peak_bytes_, start_bytes_);
  }

 private:
  void Watch(const std::stop_token& stop) {
    constexpr auto kInterval = std::chrono::milliseconds(2);
    while (!stop.stop_requested()) {
      peak_bytes_ = std::max(peak_bytes_, UnmappedResidentBytes());
      std::this_thread::sleep_for(kInterval);
    }
  }

  const uint64_t start_bytes_ = UnmappedResidentBytes();
  uint64_t peak_bytes_ = 0;  // of the watcher until it is joined
  std::jthread watcher_;
};

// Memory of an allocator, given back.
class Allocation {
 public:
  static Result<Allocation> Make(ExecutionProvider& provider, const Device& device, MemoryKind kind,
                                 uint64_t bytes) {
    Allocation allocation;
    LAMINA_ASSIGN_OR_RETURN(allocation.allocator_, provider.CreateAllocator(device, kind));
    LAMINA_ASSIGN_OR_RETURN(allocation.memory_, allocation.allocator_->Alloc(bytes));
    return allocation;
  }
  Allocation(Allocation&& other) noexcept
      : allocator_(std::move(other.allocator_)), memory_(std::exchange(other.memory_, nullptr)) {}
  Allocation& operator=(Allocation&&) = delete;
  ~Allocation() {
    if (memory_) allocator_->Free(memory_);
  }
  std::byte* memory() const { return static_cast<std::byte*>(memory_); }

 private:
  Allocation() = default;
  std::unique_ptr<Allocator> allocator_;
  void* memory_ = nullptr;
};

// Calls read(file, offset, bytes) for pieces of the files on `readers` threads; the first error.
template <typename Read>
Status ReadInParallel(const LoadBenchData& data, int readers, uint64_t most_bytes, Read read) {
  std::vector<std::pair<const File*, uint64_t>> pieces;
  uint64_t planned_bytes = 0;
  for (const auto& file : data.files) {
    for (uint64_t offset = 0; offset < file->size_bytes() && planned_bytes < most_bytes;
         offset += kReadBytes) {
      pieces.emplace_back(file.get(), offset);
      planned_bytes += kReadBytes;
    }
  }
  std::atomic<size_t> next{0};
  std::vector<Status> statuses(static_cast<size_t>(readers));
  std::vector<std::thread> threads;
  for (int reader = 0; reader < readers; ++reader) {
    threads.emplace_back([&, reader] {
      const Result<HostPages> memory = HostPages::Allocate(kReadBytes);
      Status& status = statuses[static_cast<size_t>(reader)];
      if (!memory.ok()) status = memory.status();
      for (size_t i = next++; i < pieces.size() && status.ok(); i = next++) {
        const auto& [file, offset] = pieces[i];
        const uint64_t bytes = std::min(kReadBytes, file->size_bytes() - offset);
        status = read(*file, offset, bytes, memory->bytes());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : statuses) LAMINA_RETURN_IF_ERROR(status);
  return Status();
}

uint64_t TotalBytes(const LoadBenchData& data) {
  uint64_t bytes = 0;
  for (const auto& file : data.files) bytes += file->size_bytes();
  return bytes;
}

Result<double> ResidentShare(const LoadBenchData& data) {
  uint64_t resident_bytes = 0;
  for (const auto& file : data.files) {
    LAMINA_ASSIGN_OR_RETURN(const MappedRegion mapping, file->Map(0, file->size_bytes()));
    LAMINA_ASSIGN_OR_RETURN(const uint64_t bytes, mapping.ResidentBytes());
    resident_bytes += bytes;
  }
  return static_cast<double>(resident_bytes) / static_cast<double>(TotalBytes(data));
}

Status Populate(const File& file) {
  for (uint64_t offset = 0; offset < file.size_bytes(); offset += kPopulateBytes) {
    LAMINA_ASSIGN_OR_RETURN(const MappedRegion window,
                            file.Map(offset, std::min(kPopulateBytes, file.size_bytes() - offset)));
    LAMINA_RETURN_IF_ERROR(window.Populate());
  }
  return Status();
}

// Copies every item back and compares it with its file.
Status CheckItems(ExecutionProvider& provider, const Device& device, const LoadBenchData& data) {
  LAMINA_ASSIGN_OR_RETURN(const Allocation buffer,
                          Allocation::Make(provider, device, MemoryKind::kPinned, kCopyBytes));
  ThreadPool pool;
  for (const ExternalDataItem& item : data.items) {
    LAMINA_ASSIGN_OR_RETURN(const MappedRegion expected, item.file->Map(item.offset_bytes, item.size_bytes));
    for (uint64_t offset = 0; offset < item.size_bytes; offset += kCopyBytes) {
      const uint64_t bytes = std::min(kCopyBytes, item.size_bytes - offset);
      LAMINA_RETURN_IF_ERROR(
          provider.data_transfer()->CopyAsync({static_cast<const std::byte*>(item.destination) + offset,
                                               device, buffer.memory(), Device{}, bytes},
                                              nullptr));
      std::atomic<bool> equal{true};
      pool.ParallelFor(static_cast<int64_t>(bytes), kMiB, [&](int64_t begin, int64_t end, int /*worker*/) {
        if (std::memcmp(buffer.memory() + begin, expected.bytes().data() + offset + begin,
                        static_cast<size_t>(end - begin)) != 0) {
          equal = false;
        }
      });
      if (!equal) return InternalError("'{}': the device has other bytes than the file", item.name);
    }
  }
  return Status();
}

}  // namespace

Status SetTemperature(const LoadBenchData& data, Temperature temperature) {
  if (temperature == Temperature::kCold) {
    for (const auto& file : data.files) LAMINA_RETURN_IF_ERROR(file->DropCachedPages());
  }
  LAMINA_ASSIGN_OR_RETURN(double share, ResidentShare(data));
  if (temperature == Temperature::kWarm && share < 1) {
    for (const auto& file : data.files) LAMINA_RETURN_IF_ERROR(Populate(*file));
    LAMINA_ASSIGN_OR_RETURN(share, ResidentShare(data));
  }
  const bool reached = temperature == Temperature::kCold ? share < 0.01 : share > 0.99;
  if (reached) return Status();
  return IoError("expected the files {} the page cache, found {:.1f} % of them there",
                 temperature == Temperature::kCold ? "outside" : "in", share * 100);
}

Result<double> MeasureCopyRate(ExecutionProvider& provider, const Device& device) {
  constexpr int kRepetitions = 5;
  constexpr int kCopies = 64;
  LAMINA_ASSIGN_OR_RETURN(const Allocation host,
                          Allocation::Make(provider, device, MemoryKind::kPinned, kCopyBytes));
  LAMINA_ASSIGN_OR_RETURN(const Allocation memory,
                          Allocation::Make(provider, device, MemoryKind::kDevice, kCopyBytes));
  LAMINA_ASSIGN_OR_RETURN(const std::unique_ptr<Stream> stream,
                          provider.CreateStream(device, StreamPurpose::kCopy));
  double best_bytes_per_s = 0;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    const Stopwatch watch;
    for (int i = 0; i < kCopies; ++i) {
      LAMINA_RETURN_IF_ERROR(provider.data_transfer()->CopyAsync(
          {host.memory(), Device{}, memory.memory(), device, kCopyBytes}, stream.get()));
    }
    LAMINA_RETURN_IF_ERROR(stream->Synchronize());
    best_bytes_per_s =
        std::max(best_bytes_per_s, kCopies * static_cast<double>(kCopyBytes) / watch.Seconds());
  }
  return best_bytes_per_s;
}

Result<double> MeasureReadRate(const LoadBenchData& data, bool direct, int readers, uint64_t most_bytes) {
  const uint64_t bytes = std::min(most_bytes, TotalBytes(data));
  std::vector<std::pair<const File*, std::unique_ptr<DirectReader>>> direct_readers;
  if (direct) {
    for (const auto& file : data.files) {
      LAMINA_ASSIGN_OR_RETURN(direct_readers.emplace_back(file.get(), nullptr).second, file->OpenDirect());
    }
  }
  const Stopwatch watch;
  const Status status = ReadInParallel(
      data, readers, bytes, [&](const File& file, uint64_t offset, uint64_t size, std::span<std::byte> into) {
        if (!direct) return file.ReadAt(offset, into.first(size));
        const auto found = std::find_if(direct_readers.begin(), direct_readers.end(),
                                        [&](const auto& entry) { return entry.first == &file; });
        return found->second->ReadAt(offset, into.first(kReadBytes), size);
      });
  LAMINA_RETURN_IF_ERROR(status);
  return static_cast<double>(bytes) / watch.Seconds();
}

Result<LoadSample> MeasureLoad(ExecutionProvider& provider, const Device& device, LoadBenchData& data,
                               const DeviceLoaderOptions& options, bool check) {
  LoadSample sample;
  const Stopwatch context_watch;
  LAMINA_RETURN_IF_ERROR(provider.CreateStream(device, StreamPurpose::kCopy).status());
  sample.context_s = context_watch.Seconds();

  const Stopwatch allocate_watch;
  constexpr uint64_t kAlignment = 256;
  uint64_t bytes = 0;
  for (const ExternalDataItem& item : data.items) {
    bytes += (item.size_bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  LAMINA_ASSIGN_OR_RETURN(const Allocation memory,
                          Allocation::Make(provider, device, MemoryKind::kDevice, bytes));
  uint64_t offset = 0;
  for (ExternalDataItem& item : data.items) {
    item.destination = memory.memory() + offset;
    item.device = device;
    offset += (item.size_bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  sample.allocate_s = allocate_watch.Seconds();

  HostPeak host_peak;
  const Stopwatch load_watch;
  LAMINA_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceLoader> loader,
                          DeviceLoader::Create(provider, provider.host_registration(), device, options));
  LAMINA_RETURN_IF_ERROR(loader->LoadBatch(data.items, {}));
  sample.load_s = load_watch.Seconds();
  sample.host_peak_bytes = host_peak.AddedBytes();
  sample.report = loader->last_report();
  if (check) LAMINA_RETURN_IF_ERROR(CheckItems(provider, device, data));
  return sample;
}

}  // namespace lamina::cli
