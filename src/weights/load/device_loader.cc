#include "weights/load/device_loader.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/os.h"
#include "weights/load/block_reader.h"
#include "weights/load/mapped_load.h"
#include "weights/load/pageable_load.h"
#include "weights/load/staged_load.h"

namespace lamina {
namespace {

// Measured on an H200 machine (docs/performance.md): 10 readers keep the link busy, more take memory
// bandwidth from it.
constexpr int kMostAutoReaders = 10;
// Registering is serial in the driver: one thread registers while the other's window is copied.
constexpr int kDefaultMappers = 2;
// With so few cores copying by the CPU is slower than registering. Both at once are slower than either, since
// copies wait for the driver's lock.
constexpr int kFewCores = 2;

// The state of every file before a load, to see afterwards whether one was changed meanwhile.
class UnchangedFiles {
 public:
  static Result<UnchangedFiles> Remember(const std::vector<std::shared_ptr<const File>>& files) {
    UnchangedFiles remembered(files);
    for (const auto& file : files) {
      LAMINA_ASSIGN_OR_RETURN(const FileState state, file->State());
      if (state.size_bytes != file->size_bytes()) {
        return IoError("{}: expected {} bytes as when it was opened, found {}", file->path(),
                       file->size_bytes(), state.size_bytes);
      }
      remembered.states_.push_back(state);
    }
    return remembered;
  }

  Status Check() const {
    for (size_t i = 0; i < files_.size(); ++i) {
      LAMINA_ASSIGN_OR_RETURN(const FileState state, files_[i]->State());
      if (state == states_[i]) continue;
      return IoError("{}: was changed while it was loaded: expected {} bytes as before, found {} bytes{}",
                     files_[i]->path(), states_[i].size_bytes, state.size_bytes,
                     state.size_bytes == states_[i].size_bytes ? " written to since" : "");
    }
    return Status();
  }

 private:
  explicit UnchangedFiles(const std::vector<std::shared_ptr<const File>>& files) : files_(files) {}
  const std::vector<std::shared_ptr<const File>>& files_;
  std::vector<FileState> states_;
};

void LogReport(const LoadReport& report, const Device& device) {
  if (GetLogLevel() > LogLevel::kInfo) return;
  for (const FileLoadReport& file : report.files) {
    const auto& bytes = file.bytes_by_way;
    LogInfo("external data: device={} strategy={} buffered={} direct={} mapped={} pageable={} file={}",
            device.ToString(), LoadStrategyName(report.strategy), bytes[0], bytes[1], bytes[2], bytes[3],
            file.path);
  }
  const auto seconds = [](int64_t ns) { return static_cast<double>(ns) * 1e-9; };
  Log(LogLevel::kDebug,
      "loading weights to {}: {} bytes in {:.3f} s, {:.2f} GB/s; set-up {:.3f} s, {} reading and {} mapping "
      "threads: read {:.3f} s, copy {:.3f} s, wait {:.3f} s in all",
      device.ToString(), report.bytes, seconds(report.total_ns),
      static_cast<double>(report.bytes) / static_cast<double>(std::max<int64_t>(report.total_ns, 1)),
      seconds(report.setup_ns), report.reading_threads, report.mapping_threads,
      seconds(report.phases.read_ns), seconds(report.phases.copy_ns), seconds(report.phases.wait_ns));
}

}  // namespace

Result<std::unique_ptr<DeviceLoader>> DeviceLoader::Create(ExecutionProvider& provider,
                                                           HostRegistration* registration,
                                                           const Device& device,
                                                           const DeviceLoaderOptions& options) {
  LAMINA_RETURN_IF_ERROR(options.Validate());
  return std::unique_ptr<DeviceLoader>(new DeviceLoader(provider, registration, device, options));
}

DeviceLoader::DeviceLoader(ExecutionProvider& provider, HostRegistration* registration, const Device& device,
                           const DeviceLoaderOptions& options)
    : provider_(provider),
      registration_(registration && registration->CanRegisterReadOnly() ? registration : nullptr),
      device_(device),
      options_(options),
      cores_(AvailableCores()),
      strategy_(options.strategy) {
  if (options_.reading_threads == 0) return;
  if (strategy_ == LoadStrategy::kMapped && !registration_) {
    LogInfo("loading weights: {} cannot copy from registered files; 'pinned' is used instead of 'mapped'",
            device.ToString());
    strategy_ = LoadStrategy::kPinned;
  }
  switch (strategy_) {
    case LoadStrategy::kPinned:
    case LoadStrategy::kDirect:
      readers_ = options_.reading_threads.value_or(DeviceLoaderOptions::kDefaultReadingThreads);
      break;
    case LoadStrategy::kMapped:
      mappers_ =
          std::max(1, options_.mapping_threads.value_or(options_.reading_threads.value_or(kDefaultMappers)));
      break;
    case LoadStrategy::kAuto:
      readers_ = options_.reading_threads.value_or(std::min(cores_, kMostAutoReaders));
      if (registration_) mappers_ = options_.mapping_threads.value_or(0);
      break;
  }
}

StagingBuffers::Shape DeviceLoader::StagingShape() const {
  if (strategy_ == LoadStrategy::kPinned) return {1, options_.buffer_bytes, /*stream_per_buffer=*/true};
  const auto page = static_cast<uint64_t>(PageSizeBytes());
  const auto slots = static_cast<uint64_t>(readers_);
  return {static_cast<size_t>(readers_),
          std::max(page, std::min(options_.block_bytes, options_.buffer_bytes / slots / page * page)),
          /*stream_per_buffer=*/false};
}

StagingBuffers* DeviceLoader::Staging() {
  if (!staging_ && staging_failure_.ok()) {
    Result<std::unique_ptr<StagingBuffers>> staging =
        StagingBuffers::Create(provider_, device_, StagingShape());
    if (staging.ok()) {
      staging_ = std::move(staging).value();
    } else {
      staging_failure_ = staging.status();
      // A device that never has any is nothing to warn of.
      Log(staging_failure_.code() == StatusCode::kUnsupported ? LogLevel::kInfo : LogLevel::kWarning,
          "loading weights to {}: no pinned staging buffers ({}); ordinary memory is used",
          device_.ToString(), staging_failure_.ToString());
    }
  }
  return staging_.get();
}

Status DeviceLoader::LoadTensor(const ExternalDataItem& item, const ExternalDataProgress& progress) {
  return LoadBatch(std::span(&item, 1), progress);
}

Status DeviceLoader::LoadBatch(std::span<const ExternalDataItem> items,
                               const ExternalDataProgress& progress) {
  const std::lock_guard lock(mutex_);
  LoadReport report;
  const int64_t start_ns = options_.clock->NowNs();
  ScheduleOptions schedule_options;
  schedule_options.block_bytes = readers_ > 0 ? StagingShape().slot_bytes : options_.block_bytes;
  LAMINA_ASSIGN_OR_RETURN(const LoadSchedule schedule, ScheduleLoad(items, schedule_options));
  LAMINA_ASSIGN_OR_RETURN(const UnchangedFiles unchanged, UnchangedFiles::Remember(schedule.files));
  LoadJob job(items, schedule, progress, options_);
  if (!schedule.blocks.empty()) LAMINA_RETURN_IF_ERROR(Run(job, report));
  LAMINA_RETURN_IF_ERROR(unchanged.Check());

  report.strategy = strategy_;
  report.bytes = schedule.item_bytes;
  report.total_ns = options_.clock->NowNs() - start_ns;
  report.phases = job.phases();
  report.files = job.Report();
  LogReport(report, device_);
  const std::lock_guard report_lock(report_mutex_);
  report_ = std::move(report);
  return Status();
}

bool DeviceLoader::PrefersMapping(const LoadSchedule& schedule) const {
  if (strategy_ != LoadStrategy::kAuto || !registration_ || options_.reading_threads ||
      options_.mapping_threads || cores_ > kFewCores) {
    return false;
  }
  return std::all_of(schedule.files.begin(), schedule.files.end(), [](const auto& file) {
    const Result<MappedRegion> mapping = file->Map(0, file->size_bytes());
    return mapping.ok() && IsMostlyResident(*mapping);
  });
}

Status DeviceLoader::Run(LoadJob& job, LoadReport& report) {
  if (readers_ + mappers_ == 0) return RunGeneric(job);
  const bool is_small = job.schedule().item_bytes < options_.parallel_bytes;
  if (is_small && !staging_) return RunPageable(job, /*readers=*/1);
  report.mapping_threads = PrefersMapping(job.schedule()) ? kDefaultMappers : mappers_;
  StagingBuffers* staging = nullptr;
  if (readers_ > 0 && report.mapping_threads == mappers_) {
    const int64_t start_ns = options_.clock->NowNs();
    staging = Staging();
    report.setup_ns = options_.clock->NowNs() - start_ns;
    if (!staging && mappers_ == 0) return RunPageable(job, readers_);
  }
  report.reading_threads = staging ? readers_ : 0;
  return RunPipelines(job, staging, report.mapping_threads);
}

Status DeviceLoader::RunGeneric(LoadJob& job) {
  LAMINA_ASSIGN_OR_RETURN(
      const std::unique_ptr<MappedLoad> load,
      MappedLoad::Create(job, provider_, /*registration=*/nullptr, device_, options_.window_bytes));
  return job.Run({[&load] { return load->Work(); }}, /*inline_one=*/true);
}

Status DeviceLoader::RunPageable(LoadJob& job, int readers) {
  BlockReader reader(ReadMode::kBuffered, job.schedule().files, readers, *options_.clock);
  const std::vector<std::function<Status()>> workers(
      static_cast<size_t>(readers), [&] { return RunPageableLoad(job, *provider_.data_transfer(), reader); });
  return job.Run(workers, /*inline_one=*/true);
}

Status DeviceLoader::RunPipelines(LoadJob& job, StagingBuffers* staging, int mappers) {
  std::vector<std::function<Status()>> workers;
  std::optional<BlockReader> reader;
  std::optional<StagedLoad> staged;
  if (staging) {
    StagedLoad::Division division;
    ReadMode mode = strategy_ == LoadStrategy::kDirect ? ReadMode::kDirect : ReadMode::kAdaptive;
    if (strategy_ == LoadStrategy::kPinned) {
      division = {readers_, options_.parallel_bytes, /*one_block_at_a_time=*/true};
      mode = ReadMode::kBuffered;
    }
    reader.emplace(mode, job.schedule().files, readers_, *options_.clock);
    staged.emplace(job, *staging, *reader, division);
    for (int i = 0; i < readers_; ++i) workers.push_back([&staged, i] { return staged->Work(i); });
  }
  std::vector<std::unique_ptr<MappedLoad>> mapped;
  for (int i = 0; i < mappers; ++i) {
    LAMINA_ASSIGN_OR_RETURN(mapped.emplace_back(), MappedLoad::Create(job, provider_, registration_, device_,
                                                                      options_.window_bytes));
    workers.push_back([load = mapped.back().get()] { return load->Work(); });
  }
  const Status status = job.Run(workers, /*inline_one=*/true);
  mapped.clear();
  const Status drained = staging ? staging->Drain() : Status();
  return status.ok() ? drained : status;
}

LoadReport DeviceLoader::last_report() const {
  const std::lock_guard lock(report_mutex_);
  return report_;
}

}  // namespace lamina
