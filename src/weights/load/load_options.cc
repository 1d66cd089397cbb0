#include "weights/load/load_options.h"

#include <array>
#include <charconv>
#include <string>
#include <system_error>

#include "base/error.h"

namespace lamina {
namespace {

constexpr std::array<std::string_view, 4> kStrategyNames = {"auto", "pinned", "mapped", "direct"};
constexpr uint64_t kMiB = uint64_t{1} << 20;

Status CheckSize(std::string_view name, uint64_t bytes) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 40;
  if (bytes >= kMiB && bytes % kMiB == 0 && bytes <= kMostBytes) return Status();
  return InvalidArgumentError("{}: expected a multiple of 1 MiB from 1 MiB to 1 TiB, found {} bytes", name,
                              bytes);
}

}  // namespace

std::string_view LoadStrategyName(LoadStrategy strategy) {
  return kStrategyNames.at(static_cast<size_t>(strategy));
}

Result<LoadStrategy> ParseLoadStrategy(std::string_view text) {
  for (size_t i = 0; i < kStrategyNames.size(); ++i) {
    if (kStrategyNames[i] == text) return static_cast<LoadStrategy>(i);
  }
  return InvalidArgumentError("load strategy: expected auto, pinned, mapped or direct, found '{}'", text);
}

Result<DeviceLoaderOptions> DeviceLoaderOptions::FromProviderOptions(const ProviderOptions& options) {
  constexpr const char* kThreadsKey = "external_data_loader_reading_threads";
  constexpr const char* kStrategyKey = "external_data_loader_strategy";
  DeviceLoaderOptions result;
  if (const auto found = options.find(kThreadsKey); found != options.end()) {
    int threads = 0;
    const std::string& text = found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), threads);
    if (error != std::errc() || end != text.data() + text.size()) {
      return InvalidArgumentError("{}: expected a whole number from 0 to {}, found '{}'", kThreadsKey,
                                  kMostReadingThreads, text);
    }
    result.reading_threads = threads;
  }
  if (const auto found = options.find(kStrategyKey); found != options.end()) {
    Result<LoadStrategy> strategy = ParseLoadStrategy(found->second);
    if (!strategy.ok()) return strategy.status().WithContext(kStrategyKey);
    result.strategy = *strategy;
  }
  LAMINA_RETURN_IF_ERROR(result.Validate());
  return result;
}

Status DeviceLoaderOptions::Validate() const {
  if (static_cast<size_t>(strategy) >= kStrategyNames.size()) {
    return InvalidArgumentError("load strategy: expected 0 to {}, found {}", kStrategyNames.size() - 1,
                                static_cast<int>(strategy));
  }
  if (reading_threads && (*reading_threads < 0 || *reading_threads > kMostReadingThreads)) {
    return InvalidArgumentError("external_data_loader_reading_threads: expected 0 to {}, found {}",
                                kMostReadingThreads, *reading_threads);
  }
  if (mapping_threads && (*mapping_threads < 0 || *mapping_threads > kMostReadingThreads)) {
    return InvalidArgumentError("mapping_threads: expected 0 to {}, found {}", kMostReadingThreads,
                                *mapping_threads);
  }
  LAMINA_RETURN_IF_ERROR(CheckSize("buffer_bytes", buffer_bytes));
  LAMINA_RETURN_IF_ERROR(CheckSize("block_bytes", block_bytes));
  LAMINA_RETURN_IF_ERROR(CheckSize("window_bytes", window_bytes));
  if (stall_ns <= 0) return InvalidArgumentError("stall_ns: expected more than 0, found {}", stall_ns);
  if (clock == nullptr) return InvalidArgumentError("clock: expected one, found none");
  return Status();
}

uint64_t DeviceLoaderOptions::StagingBytes() const {
  if (reading_threads == 0 || strategy == LoadStrategy::kMapped) return 0;
  return 2 * buffer_bytes;
}

}  // namespace lamina
