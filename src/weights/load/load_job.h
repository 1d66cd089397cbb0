// One load under way: the blocks that are left, the first error, what has arrived; and the threads that do
// it.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "lamina/status.h"
#include "provider/external_data_loader.h"
#include "weights/load/load_options.h"
#include "weights/load/load_schedule.h"

namespace lamina {

// How bytes came to the device.
enum class LoadWay : uint8_t { kBuffered = 0, kDirect, kMapped, kPageable };
constexpr size_t kNumLoadWays = 4;

// Where the threads of a load spent their time; the sum over all of them.
struct LoadPhases {
  int64_t read_ns = 0;  // reading files, or bringing mapped ones into memory and registering them
  int64_t copy_ns = 0;  // handing copies to the device
  int64_t wait_ns = 0;  // for copies to be done
};

struct FileLoadReport {
  std::string path;
  std::array<uint64_t, kNumLoadWays> bytes_by_way = {};  // copied to the device, by LoadWay
};

// Thread-safe but for what names the calling thread.
class LoadJob {
 public:
  // All referred to outlive the job. The constructing thread is the calling thread.
  LoadJob(std::span<const ExternalDataItem> items, const LoadSchedule& schedule,
          const ExternalDataProgress& progress, const DeviceLoaderOptions& options);

  std::span<const ExternalDataItem> items() const { return items_; }
  const LoadSchedule& schedule() const { return schedule_; }

  // The next blocks: at least one, at most `most_bytes` of them, all following each other in one file. None
  // where all are taken or the load has stopped.
  std::span<const LoadBlock> Claim(uint64_t most_bytes = 0);
  bool AllClaimed() const;

  // The first error stays; the load then stops as soon as every thread sees it. OK is ignored.
  void Fail(const Status& status);
  bool stopped() const { return stopped_.load(std::memory_order_relaxed); }

  // The copies of a block are on their way. Reports progress where this is the calling thread.
  void Count(const LoadBlock& block, LoadWay way);

  // Runs every worker on a thread of its own, or the only one here if `inline_one`; returns when all have
  // ended, with the first error. An exception of a worker is an error. Where the system refuses a thread
  // the others do its share.
  Status Run(const std::vector<std::function<Status()>>& workers, bool inline_one);

  std::vector<FileLoadReport> Report() const;
  LoadPhases phases() const { return {read_ns_, copy_ns_, wait_ns_}; }

  // Calls `work` and adds the time it takes to a phase.
  enum class Phase : uint8_t { kRead, kCopy, kWait };
  template <typename Work>
  auto Timed(Phase phase, Work work) {
    const int64_t start_ns = SystemClock().NowNs();
    auto result = work();
    auto& sum_ns = phase == Phase::kRead ? read_ns_ : phase == Phase::kCopy ? copy_ns_ : wait_ns_;
    sum_ns.fetch_add(SystemClock().NowNs() - start_ns, std::memory_order_relaxed);
    return result;
  }

 private:
  void RunWorker(const std::function<Status()>& worker);
  // REQUIRES: the calling thread. Tells the caller what has arrived and looks for a stall.
  void Poll();
  Status status() const;

  std::span<const ExternalDataItem> items_;
  const LoadSchedule& schedule_;
  const ExternalDataProgress& progress_;
  const DeviceLoaderOptions& options_;
  const std::thread::id calling_thread_ = std::this_thread::get_id();

  mutable std::mutex mutex_;
  std::condition_variable worker_ended_;
  size_t next_block_ = 0;  // the following are guarded by mutex_
  size_t workers_running_ = 0;
  Status first_error_;
  std::vector<std::array<uint64_t, kNumLoadWays>> bytes_by_file_;

  std::atomic<bool> stopped_{false};
  std::atomic<uint64_t> arrived_bytes_{0};
  std::atomic<int64_t> read_ns_{0};
  std::atomic<int64_t> copy_ns_{0};
  std::atomic<int64_t> wait_ns_{0};

  // Of the calling thread.
  uint64_t reported_bytes_ = 0;
  int64_t last_arrival_ns_;
  bool stall_reported_ = false;
};

}  // namespace lamina
