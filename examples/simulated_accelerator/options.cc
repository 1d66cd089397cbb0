#include "options.h"

#include <charconv>
#include <string_view>
#include <system_error>

namespace sim {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr int32_t kMaxDevices = 16;

Outcome Invalid(std::string_view key, std::string_view expected, std::string_view found) {
  return Outcome::Error(LAMINA_INVALID_ARGUMENT, "option '" + std::string(key) + "': expected " +
                                                     std::string(expected) + ", found '" +
                                                     std::string(found) + "'");
}

bool ParseNumber(std::string_view text, uint64_t* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size();
}

// "64KiB", "512MiB", "2GiB" or bytes.
bool ParseBytes(std::string_view text, uint64_t* bytes) {
  int shift = 0;
  for (const auto& [suffix, bits] : {std::pair<std::string_view, int>{"KiB", 10}, {"MiB", 20}, {"GiB", 30}}) {
    if (text.size() > suffix.size() && text.substr(text.size() - suffix.size()) == suffix) {
      shift = bits;
      text.remove_suffix(suffix.size());
    }
  }
  uint64_t number = 0;
  if (!ParseNumber(text, &number) || number > UINT64_MAX >> shift) return false;
  *bytes = number << shift;
  return true;
}

Outcome ParseOption(std::string_view key, std::string_view value, Options* options) {
  uint64_t number = 0;
  if (key == "devices") {
    if (!ParseNumber(value, &number) || number < 1 || number > kMaxDevices) {
      return Invalid(key, "a number from 1 to 16", value);
    }
    options->devices = static_cast<int32_t>(number);
  } else if (key == "memory") {
    if (!ParseBytes(value, &options->memory_bytes)) return Invalid(key, "bytes, such as 512MiB", value);
  } else if (key == "granularity") {
    if (!ParseBytes(value, &options->granularity_bytes)) return Invalid(key, "bytes, such as 64KiB", value);
  } else if (key == "link_bandwidth") {
    if (!ParseBytes(value, &number)) return Invalid(key, "bytes per second, such as 8GiB", value);
    options->link_bandwidth_bytes_per_s = static_cast<double>(number);
  } else if (key == "memory_bandwidth") {
    if (!ParseBytes(value, &number)) return Invalid(key, "bytes per second, such as 100GiB", value);
    options->memory_bandwidth_bytes_per_s = static_cast<double>(number);
  } else if (key == "latency_us") {
    if (!ParseNumber(value, &number) || number > 1000000) {
      return Invalid(key, "microseconds up to 1000000", value);
    }
    options->latency_us = number;
  } else if (key == "compute_threads") {
    if (!ParseNumber(value, &number) || number < 1 || number > 256) {
      return Invalid(key, "a number from 1 to 256", value);
    }
    options->compute_threads = static_cast<int32_t>(number);
  } else if (key == "without_types") {
    options->without_types = value;
  } else {
    return Outcome::Error(LAMINA_INVALID_ARGUMENT,
                          "there is no option '" + std::string(key) +
                              "'; there are devices, memory, granularity, link_bandwidth, memory_bandwidth, "
                              "latency_us, compute_threads, without_types");
  }
  return {};
}

}  // namespace

Outcome ParseOptions(const LaminaKeyValues* given, Options* options) {
  for (size_t i = 0; given && i < given->count; ++i) {
    const Outcome outcome = ParseOption(given->keys[i], given->values[i], options);
    if (!outcome.ok()) return outcome;
  }
  if (options->granularity_bytes == 0 || options->granularity_bytes % kPageBytes != 0) {
    return Invalid("granularity", "a multiple of 4096", std::to_string(options->granularity_bytes));
  }
  if (options->memory_bytes == 0 || options->memory_bytes % options->granularity_bytes != 0) {
    return Invalid("memory", "a multiple of the granularity", std::to_string(options->memory_bytes));
  }
  return {};
}

}  // namespace sim
