// A profile of a run in the format of Chrome's trace viewer (chrome://tracing, Perfetto).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lamina/session.h"
#include "lamina/status.h"

namespace lamina::cli {

// One event a kernel: name, operator, device, bytes read and written, GB/s. Written as it comes.
class TraceFile {
 public:
  static Result<std::unique_ptr<TraceFile>> Create(const std::string& path);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // Adds the step of a run; runs follow one another on the time axis.
  void Add(const StepProfile& step);
  // Completes the file; IO where any write failed.
  Status Close();

 private:
  TraceFile() = default;
  std::string path_;
  std::FILE* file_ = nullptr;
  bool first_ = true;
  int64_t run_offset_ns_ = 0;  // where the current run starts on the axis
  int64_t last_start_ns_ = 0;  // of the current run's latest step
  int64_t last_end_ns_ = 0;    // on the axis
};

}  // namespace lamina::cli
