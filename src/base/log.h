// Logging for the library: messages go to a sink that the embedder can replace; the default writes to
// standard error. Nothing in the library prints elsewhere.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string_view>
#include <utility>

namespace lamina {

enum class LogLevel { kTrace = 0, kDebug, kInfo, kWarning, kError, kOff };

using LogSink = std::function<void(LogLevel, std::string_view message)>;

// Messages below `level` are dropped. Default: kWarning. Thread-safe.
void SetLogLevel(LogLevel level);
LogLevel GetLogLevel();
// Replaces the sink; an empty function restores the default (spdlog on standard error). Thread-safe.
void SetLogSink(LogSink sink);

void LogMessage(LogLevel level, std::string_view message);

template <typename... Args>
void Log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (level < GetLogLevel()) return;
  LogMessage(level, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
void LogInfo(fmt::format_string<Args...> format, Args&&... args) {
  Log(LogLevel::kInfo, format, std::forward<Args>(args)...);
}
template <typename... Args>
void LogWarning(fmt::format_string<Args...> format, Args&&... args) {
  Log(LogLevel::kWarning, format, std::forward<Args>(args)...);
}

}  // namespace lamina
