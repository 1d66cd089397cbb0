#include "placement/designator.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/error.h"

namespace lamina {
namespace {

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char character) { return static_cast<char>(std::tolower(character)); });
  return lower;
}

std::optional<size_t> ParseOrdinal(std::string_view text) {
  size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

// The n-th device for which `matches` holds.
template <typename Predicate>
std::optional<size_t> Nth(std::span<const DeviceDescription> devices, size_t n, Predicate matches) {
  for (size_t i = 0; i < devices.size(); ++i) {
    if (matches(devices[i]) && n-- == 0) return i;
  }
  return {};
}

std::optional<DeviceKind> KindOf(std::string_view name) {
  if (name == "cpu") return DeviceKind::kCpu;
  if (name == "gpu") return DeviceKind::kGpu;
  if (name == "npu") return DeviceKind::kNpu;
  if (name == "fpga") return DeviceKind::kFpga;
  return {};
}

}  // namespace

std::optional<size_t> FindDevice(std::string_view designator, std::span<const DeviceDescription> devices) {
  const size_t colon = designator.find(':');
  const std::string_view name = designator.substr(0, colon);
  const bool has_specifier = colon != std::string_view::npos;
  const std::string_view specifier = has_specifier ? designator.substr(colon + 1) : std::string_view();
  const std::optional<size_t> ordinal = has_specifier ? ParseOrdinal(specifier) : 0;
  const std::string lower = Lower(name);
  if (const std::optional<DeviceKind> kind = KindOf(lower)) {
    const auto of_kind = [&](const DeviceDescription& device) { return device.device.kind == *kind; };
    if (ordinal) return Nth(devices, *ordinal, of_kind);
    const std::string vendor = Lower(specifier);
    return Nth(devices, 0,
               [&](const DeviceDescription& device) { return of_kind(device) && device.vendor == vendor; });
  }
  if (!ordinal) return {};
  if (lower == "accelerator") {
    return Nth(devices, *ordinal, [](const DeviceDescription& device) { return !device.device.is_host(); });
  }
  return Nth(devices, *ordinal, [&](const DeviceDescription& device) { return device.provider == name; });
}

Status UnknownDeviceError(std::string_view designator, std::span<const DeviceDescription> devices) {
  std::string present;
  for (const DeviceDescription& device : devices) {
    if (!present.empty()) present += ", ";
    present += fmt::format("{} ({})", device.device.ToString(), device.provider);
  }
  return NotFoundError("no device answers to '{}'; present are: {}", designator, present);
}

}  // namespace lamina
