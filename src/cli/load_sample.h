// One measurement of `lamina bench load`: of a bound, or of a load.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/load_bench_data.h"
#include "lamina/status.h"
#include "provider/provider.h"
#include "weights/load/device_loader.h"

namespace lamina::cli {

// Whether the files are in the page cache before a measurement.
enum class Temperature : uint8_t { kWarm, kCold };

// Brings the files into the page cache, or out of it, and checks that it is so. IO where the system does not
// do it.
Status SetTemperature(const LoadBenchData& data, Temperature temperature);

// Bytes a second from pinned host memory to the device: the best of several copies of many buffers.
Result<double> MeasureCopyRate(ExecutionProvider& provider, const Device& device);

// Bytes a second of the first `most_bytes` of the files into memory, without a device.
Result<double> MeasureReadRate(const LoadBenchData& data, bool direct, int readers, uint64_t most_bytes);

struct LoadSample {
  double context_s = 0;  // until the device answers
  double allocate_s = 0;
  double load_s = 0;             // staging set-up included
  uint64_t host_peak_bytes = 0;  // that the load added, without pages of mapped files
  LoadReport report;
};

// Loads everything to the device. With `check` every byte is copied back and compared with the files.
Result<LoadSample> MeasureLoad(ExecutionProvider& provider, const Device& device, LoadBenchData& data,
                               const DeviceLoaderOptions& options, bool check);

}  // namespace lamina::cli
