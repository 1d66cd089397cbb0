// How weights are brought to a device: what the user may choose, and the sizes that planning counts.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "lamina/status.h"
#include "provider/provider.h"

namespace lamina {

enum class LoadStrategy : uint8_t {
  kAuto = 0,  // by what is in the page cache, the cores and the file system
  kPinned,    // buffered reads fill one of two pinned buffers while the other is copied
  kMapped,    // the device copies from the mapped file itself, registered in windows
  kDirect,    // reads that bypass the page cache, into pinned memory
};

std::string_view LoadStrategyName(LoadStrategy strategy);
// "auto", "pinned", "mapped", "direct"; INVALID_ARGUMENT lists them.
Result<LoadStrategy> ParseLoadStrategy(std::string_view text);

struct DeviceLoaderOptions {
  static constexpr int kMostReadingThreads = 64;
  static constexpr int kDefaultReadingThreads = 4;

  LoadStrategy strategy = LoadStrategy::kAuto;
  // Threads that read: 0 leaves loading to the generic way (map the file, copy from pageable memory), 1 reads
  // on the calling thread, up to 64. Unset: 4, and with kAuto as many as the cores, at most 10.
  std::optional<int> reading_threads;
  // Threads that copy from the mapped file, with kMapped and kAuto. Unset: 2 with kMapped, as few as are of
  // use with kAuto.
  std::optional<int> mapping_threads;
  // Two staging buffers of this size, pinned for as long as the loader lives. A multiple of 1 MiB.
  uint64_t buffer_bytes = uint64_t{64} << 20;
  // Below this many bytes nothing is pinned and reads are not divided.
  uint64_t parallel_bytes = uint64_t{16} << 20;
  // Bytes that one reader reads at once where every reader has buffers of its own (kAuto, kDirect).
  uint64_t block_bytes = uint64_t{4} << 20;
  // Bytes of a mapped file that are registered at once; two windows a thread.
  uint64_t window_bytes = uint64_t{256} << 20;
  // A load without a byte for so long is reported in the log, once.
  int64_t stall_ns = int64_t{10} * 1'000'000'000;
  const Clock* clock = &SystemClock();

  // What a provider's options say: external_data_loader_reading_threads, external_data_loader_strategy.
  // INVALID_ARGUMENT names the key.
  static Result<DeviceLoaderOptions> FromProviderOptions(const ProviderOptions& options);
  // INVALID_ARGUMENT names the field, what is allowed and what was found.
  Status Validate() const;
  // Host memory that the loader pins, for the plan; 0 with reading_threads 0 or kMapped.
  uint64_t StagingBytes() const;
};

}  // namespace lamina
