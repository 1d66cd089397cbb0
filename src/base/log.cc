#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>
#include <mutex>

namespace lamina {
namespace {

std::atomic<LogLevel> g_level{LogLevel::kWarning};
std::mutex g_sink_mutex;
LogSink g_sink;  // guarded by g_sink_mutex

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  return static_cast<spdlog::level::level_enum>(level == LogLevel::kOff ? spdlog::level::off
                                                                        : static_cast<int>(level));
}

spdlog::logger& DefaultLogger() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made =
        std::make_shared<spdlog::logger>("lamina", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_level(spdlog::level::trace);
    made->set_pattern("%^%l%$: %v");
    return made;
  }();
  return *logger;
}

}  // namespace

void SetLogLevel(LogLevel level) { g_level.store(level, std::memory_order_relaxed); }
LogLevel GetLogLevel() { return g_level.load(std::memory_order_relaxed); }

void SetLogSink(LogSink sink) {
  const std::lock_guard lock(g_sink_mutex);
  g_sink = std::move(sink);
}

void LogMessage(LogLevel level, std::string_view message) {
  if (level < GetLogLevel()) return;
  LogSink sink;
  {
    const std::lock_guard lock(g_sink_mutex);
    sink = g_sink;
  }
  if (sink) {
    sink(level, message);
  } else {
    DefaultLogger().log(ToSpdlog(level), message);
  }
}

}  // namespace lamina
