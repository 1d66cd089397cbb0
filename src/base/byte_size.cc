#include "base/byte_size.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <optional>

#include "base/error.h"

namespace lamina {
namespace {

using Wide = unsigned __int128;

struct Unit {
  std::string_view name;  // lower case
  uint64_t bytes;
};

constexpr std::array<Unit, 9> kUnits = {{{"b", 1},
                                         {"kb", 1'000},
                                         {"mb", 1'000'000},
                                         {"gb", 1'000'000'000},
                                         {"tb", 1'000'000'000'000},
                                         {"kib", kKiB},
                                         {"mib", kMiB},
                                         {"gib", kGiB},
                                         {"tib", kGiB * 1024}}};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

std::optional<uint64_t> UnitBytes(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  for (const Unit& unit : kUnits) {
    if (unit.name == lower) return unit.bytes;
  }
  return std::nullopt;
}

Status Malformed(std::string_view text, std::string_view found) {
  return InvalidArgumentError(
      "size '{}': expected a number and a unit such as 6GiB, 512MiB, 8GB or bytes, found {}", text, found);
}

}  // namespace

Result<uint64_t> ParseByteSize(std::string_view text) {
  const auto too_large = [&] { return InvalidArgumentError("size '{}' is more than 2^64 - 1 bytes", text); };
  size_t at = 0;
  Wide whole = 0;
  for (; at < text.size() && IsDigit(text[at]); ++at) {
    whole = whole * 10 + static_cast<unsigned>(text[at] - '0');
    if (whole > UINT64_MAX) return too_large();
  }
  if (at == 0) return Malformed(text, text.empty() ? "nothing" : "no digit at its start");

  // The fraction as numerator / 10^digits; digits beyond the twelfth are below one byte of a TiB.
  Wide numerator = 0;
  Wide denominator = 1;
  const bool has_fraction = at < text.size() && text[at] == '.';
  if (has_fraction) {
    const size_t first = ++at;
    for (; at < text.size() && IsDigit(text[at]); ++at) {
      if (at - first >= 13) continue;
      numerator = numerator * 10 + static_cast<unsigned>(text[at] - '0');
      denominator *= 10;
    }
    if (at == first) return Malformed(text, "no digit after the point");
  }

  size_t unit_at = at;
  while (unit_at < text.size() && text[unit_at] == ' ') ++unit_at;
  const std::string_view unit_text = text.substr(unit_at);
  if (unit_text.empty()) {
    if (unit_at != at) return Malformed(text, "a space at its end");
    if (has_fraction) return Malformed(text, "a fraction without a unit");
    return static_cast<uint64_t>(whole);
  }
  const std::optional<uint64_t> unit = UnitBytes(unit_text);
  if (!unit) return Malformed(text, fmt::format("the unit '{}'", unit_text));
  const Wide bytes = whole * *unit + numerator * *unit / denominator;
  if (bytes > UINT64_MAX) return too_large();
  return static_cast<uint64_t>(bytes);
}

std::string FormatByteSize(uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kNames = {"", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < kNames.size()) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{}{}", bytes, kNames[unit]);
}

std::string ApproximateByteSize(uint64_t bytes) {
  constexpr std::array<std::string_view, 7> kNames = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  // 999.5 would round to four digits.
  while (value >= 999.5 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, kNames[unit]);
}

}  // namespace lamina
