#include "weights/load/load_job.h"

#include <chrono>
#include <exception>
#include <new>
#include <system_error>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/log.h"

namespace lamina {
namespace {

// How often the calling thread looks at the progress of the others.
constexpr auto kPollInterval = std::chrono::milliseconds(20);

}  // namespace

LoadJob::LoadJob(std::span<const ExternalDataItem> items, const LoadSchedule& schedule,
                 const ExternalDataProgress& progress, const DeviceLoaderOptions& options)
    : items_(items),
      schedule_(schedule),
      progress_(progress),
      options_(options),
      bytes_by_file_(schedule.files.size()),
      last_arrival_ns_(options.clock->NowNs()) {}

std::span<const LoadBlock> LoadJob::Claim(uint64_t most_bytes) {
  const std::span<const LoadBlock> blocks = schedule_.blocks;
  const std::lock_guard lock(mutex_);
  if (stopped() || next_block_ == blocks.size()) return {};
  const size_t first = next_block_++;
  uint64_t bytes = blocks[first].size_bytes;
  while (next_block_ < blocks.size()) {
    const LoadBlock& last = blocks[next_block_ - 1];
    const LoadBlock& next = blocks[next_block_];
    const bool follows = next.file == last.file && next.offset_bytes == last.offset_bytes + last.size_bytes;
    bytes += next.size_bytes;
    if (!follows || bytes > most_bytes) break;
    ++next_block_;
  }
  return blocks.subspan(first, next_block_ - first);
}

bool LoadJob::AllClaimed() const {
  const std::lock_guard lock(mutex_);
  return next_block_ == schedule_.blocks.size();
}

void LoadJob::Fail(const Status& status) {
  if (status.ok()) return;
  const std::lock_guard lock(mutex_);
  if (first_error_.ok()) first_error_ = status;
  stopped_.store(true, std::memory_order_relaxed);
}

Status LoadJob::status() const {
  const std::lock_guard lock(mutex_);
  return first_error_;
}

void LoadJob::Count(const LoadBlock& block, LoadWay way) {
  uint64_t bytes = 0;
  for (const LoadPiece& piece : block.pieces) bytes += piece.size_bytes;
  {
    const std::lock_guard lock(mutex_);
    bytes_by_file_[block.file][static_cast<size_t>(way)] += bytes;
  }
  arrived_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  if (std::this_thread::get_id() == calling_thread_) Poll();
}

void LoadJob::Poll() {
  const uint64_t arrived_bytes = arrived_bytes_.load(std::memory_order_relaxed);
  const int64_t now_ns = options_.clock->NowNs();
  if (arrived_bytes == reported_bytes_) {
    if (!stall_reported_ && now_ns - last_arrival_ns_ >= options_.stall_ns) {
      stall_reported_ = true;
      LogWarning("loading weights: nothing has arrived for {} s; {} of {} are there",
                 (now_ns - last_arrival_ns_) / 1'000'000'000, FormatByteSize(arrived_bytes),
                 FormatByteSize(schedule_.item_bytes));
    }
  } else {
    last_arrival_ns_ = now_ns;
  }
  // Also without new bytes: it is how the caller cancels.
  const uint64_t new_bytes = arrived_bytes - reported_bytes_;
  reported_bytes_ = arrived_bytes;
  if (progress_.on_loaded && !stopped()) Fail(progress_.on_loaded(new_bytes));
}

void LoadJob::RunWorker(const std::function<Status()>& worker) {
  try {
    Fail(worker());
  } catch (const std::bad_alloc&) {
    Fail(ResourceExhaustedError("loading weights: out of host memory"));
  } catch (const std::exception& exception) {
    Fail(InternalError("loading weights: {}", exception.what()));
  }
}

Status LoadJob::Run(const std::vector<std::function<Status()>>& workers, bool inline_one) {
  if (inline_one && workers.size() == 1) {
    RunWorker(workers.front());
    Poll();
    return status();
  }
  workers_running_ = workers.size();
  std::vector<std::thread> threads;
  threads.reserve(workers.size());
  for (const auto& worker : workers) {
    try {
      threads.emplace_back([this, &worker] {
        RunWorker(worker);
        const std::lock_guard lock(mutex_);
        --workers_running_;
        worker_ended_.notify_one();
      });
    } catch (const std::system_error&) {
      const std::lock_guard lock(mutex_);
      --workers_running_;
    }
  }
  if (threads.empty()) {
    RunWorker(workers.front());
  } else {
    std::unique_lock lock(mutex_);
    while (!worker_ended_.wait_for(lock, kPollInterval, [this] { return workers_running_ == 0; })) {
      lock.unlock();
      Poll();
      lock.lock();
    }
  }
  for (std::thread& thread : threads) thread.join();
  Poll();
  return status();
}

std::vector<FileLoadReport> LoadJob::Report() const {
  const std::lock_guard lock(mutex_);
  std::vector<FileLoadReport> reports;
  for (size_t i = 0; i < bytes_by_file_.size(); ++i) {
    reports.push_back({schedule_.files[i]->path(), bytes_by_file_[i]});
  }
  return reports;
}

}  // namespace lamina
