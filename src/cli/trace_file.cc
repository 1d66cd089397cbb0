#include "cli/trace_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace lamina::cli {

Result<std::unique_ptr<TraceFile>> TraceFile::Create(const std::string& path) {
  std::unique_ptr<TraceFile> trace(new TraceFile());
  trace->path_ = path;
  trace->file_ = std::fopen(path.c_str(), "w");
  if (!trace->file_) return IoError("{}: cannot be written: {}", path, std::strerror(errno));
  fmt::print(trace->file_, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
  return trace;
}

TraceFile::~TraceFile() {
  if (file_) std::fclose(file_);
}

void TraceFile::Add(const StepProfile& step) {
  if (step.start_ns < last_start_ns_) run_offset_ns_ = last_end_ns_;  // another run began
  last_start_ns_ = step.start_ns;
  const int64_t start_ns = run_offset_ns_ + step.start_ns;
  last_end_ns_ = start_ns + step.duration_ns;
  const double seconds = static_cast<double>(step.duration_ns) * 1e-9;
  const nlohmann::json event = {
      {"name", step.node},
      {"cat", step.op_type},
      {"ph", "X"},
      {"pid", 1},
      {"tid", 1},
      {"ts", static_cast<double>(start_ns) / 1e3},
      {"dur", static_cast<double>(step.duration_ns) / 1e3},
      {"args",
       {{"operator", step.op_type},
        {"device", step.device.ToString()},
        {"bytes", step.bytes},
        {"GB/s", seconds > 0 ? static_cast<double>(step.bytes) / seconds / 1e9 : 0.0}}},
  };
  fmt::print(file_, "{}\n{}", first_ ? "" : ",",
             event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  first_ = false;
}

Status TraceFile::Close() {
  fmt::print(file_, "\n]}}\n");
  const bool failed = std::ferror(file_) != 0;
  const bool close_failed = std::fclose(std::exchange(file_, nullptr)) != 0;
  if (failed || close_failed) return IoError("{}: the profile could not be written whole", path_);
  return Status();
}

}  // namespace lamina::cli
