// Brings weights from their files to a device at the speed of disk and link.
//
//   LAMINA_ASSIGN_OR_RETURN(auto loader, DeviceLoader::Create(provider, device, {}));
//   LAMINA_RETURN_IF_ERROR(loader->LoadBatch(items, progress));
//
// The strategies (load_options.h):
// - pinned: two pinned buffers of 64 MiB with a stream each. `reading_threads` readers fill disjoint ranges
// of
//   one while the other is copied; the copy begins when the buffer is full, and a buffer's stream is waited
//   for before the buffer is filled again.
// - direct: every reader has slots of its own in those buffers and reads past the page cache; no reader waits
//   for another.
// - mapped: mapped_load.h.
// - auto: as direct, but bytes that are in the page cache are read from there, and for the others it is tried
//   out how the disk is fastest (read_tuner.h). With one or two cores a file in the page cache is mapped. On
//   request (mapping_threads) threads that do as `mapped` work beside the readers on the same list of blocks.
//
// Loads of fewer than `parallel_bytes` pin nothing: they are read on the calling thread and copied from
// ordinary memory. So is everything where pinned memory or streams cannot be had; that is found out once,
// with a warning in the log.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "lamina/status.h"
#include "provider/host_registration.h"
#include "provider/provider.h"
#include "weights/load/load_job.h"
#include "weights/load/load_options.h"
#include "weights/load/staging_buffers.h"

namespace lamina {

// What a load did.
struct LoadReport {
  LoadStrategy strategy = LoadStrategy::kAuto;
  int reading_threads = 0;  // with staging; 0: none
  int mapping_threads = 0;
  uint64_t bytes = 0;
  int64_t setup_ns = 0;  // pinned memory and streams; 0 after the first load
  int64_t total_ns = 0;  // setup included
  LoadPhases phases;
  std::vector<FileLoadReport> files;
};

// Thread-safe: one load at a time, others wait. Errors of a load: IO (the file cannot be read, was cut short
// or written to meanwhile), those of the device, and what the caller's on_loaded returns. Whatever the
// outcome, no thread, read or copy is under way on return and nothing stays registered.
class DeviceLoader : public IExternalDataLoader {
 public:
  // INVALID_ARGUMENT: options. REQUIRES: the provider has a data transfer and outlives the loader, as does
  // `registration`, null where the provider registers nothing (mapped is then as pinned).
  static Result<std::unique_ptr<DeviceLoader>> Create(ExecutionProvider& provider,
                                                      HostRegistration* registration, const Device& device,
                                                      const DeviceLoaderOptions& options);

  // False with reading_threads 0: the caller then loads as it does without a loader. LoadBatch does the same
  // all the same: it copies from mapped files on the calling thread.
  bool CanLoad(const Device& device) const override { return device == device_ && readers_ + mappers_ > 0; }
  Status LoadTensor(const ExternalDataItem& item, const ExternalDataProgress& progress) override;
  Status LoadBatch(std::span<const ExternalDataItem> items, const ExternalDataProgress& progress) override;

  // Of the last load that came to its end.
  LoadReport last_report() const;

 private:
  DeviceLoader(ExecutionProvider& provider, HostRegistration* registration, const Device& device,
               const DeviceLoaderOptions& options);
  StagingBuffers::Shape StagingShape() const;
  // The staging buffers, made at the first call; null where they cannot be had.
  StagingBuffers* Staging();
  // Starts the readers that the options ask for; their numbers go to the report.
  Status Run(LoadJob& job, LoadReport& report);
  Status RunGeneric(LoadJob& job);
  Status RunPageable(LoadJob& job, int readers);
  // Readers with `staging`, where it is not null, beside threads that map.
  Status RunPipelines(LoadJob& job, StagingBuffers* staging, int mappers);
  // Whether threads that map are to do all, by what is in the page cache and the cores.
  bool PrefersMapping(const LoadSchedule& schedule) const;

  ExecutionProvider& provider_;
  HostRegistration* const registration_;
  const Device device_;
  const DeviceLoaderOptions options_;
  const int cores_;
  LoadStrategy strategy_;  // what the options come to on this device
  int readers_ = 0;        // threads that fill staging buffers
  int mappers_ = 0;        // threads that map and register

  std::mutex mutex_;  // held for a whole load
  std::unique_ptr<StagingBuffers> staging_;
  Status staging_failure_;  // why there is none; OK where it was not tried yet
  mutable std::mutex report_mutex_;
  LoadReport report_;  // guarded by report_mutex_
};

}  // namespace lamina
