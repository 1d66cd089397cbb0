#include "plan/device_spec.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/byte_size.h"
#include "base/edit_distance.h"
#include "base/error.h"
#include "base/text.h"

namespace lamina {
namespace {

constexpr uint64_t kGranularityBytes = 2 * kMiB;  // of CUDA's virtual memory and of large cudaMalloc blocks
// Driver context, library handles and loaded kernels on a card that has nothing else to do.
constexpr uint64_t kReservedBytes = 600 * kMiB;
constexpr int kMaxOrdinal = 63;

struct Preset {
  std::string_view name;
  std::string_view marketing_name;
  uint64_t memory_bytes;
  double memory_gb_per_s;  // decimal
  double link_gb_per_s;    // host to device, pinned
  int compute_capability;  // 89 is 8.9
  int multiprocessors;
};

// h200: memory, bandwidths as measured on one. The others: data sheets, and of the link what a 16-lane (rtx
// 4060: 8-lane) slot of its generation carries in practice.
constexpr Preset kPresets[] = {
    {"h200", "NVIDIA H200", 139 * kGiB, 4520, 55.4, 90, 132},
    {"h100", "NVIDIA H100 SXM", 80 * kGiB, 3350, 55, 90, 132},
    {"a100", "NVIDIA A100 80GB", 80 * kGiB, 2039, 26, 80, 108},
    {"a100-40gb", "NVIDIA A100 40GB", 40 * kGiB, 1555, 26, 80, 108},
    {"l40s", "NVIDIA L40S", 48 * kGiB, 864, 26, 89, 142},
    {"l4", "NVIDIA L4", 24 * kGiB, 300, 26, 89, 58},
    {"t4", "NVIDIA T4", 16 * kGiB, 320, 12, 75, 40},
    {"rtx5090", "NVIDIA GeForce RTX 5090", 32 * kGiB, 1792, 55, 120, 170},
    {"rtx4090", "NVIDIA GeForce RTX 4090", 24 * kGiB, 1008, 26, 89, 128},
    {"rtx4060", "NVIDIA GeForce RTX 4060", 8 * kGiB, 272, 13, 89, 24},
    {"rtx3090", "NVIDIA GeForce RTX 3090", 24 * kGiB, 936, 26, 86, 82},
    {"rtx3060", "NVIDIA GeForce RTX 3060", 12 * kGiB, 360, 26, 86, 28},
};

const std::vector<std::string>& Keys() {
  static const std::vector<std::string> keys = {"memory",          "memory_bandwidth",
                                                "link_bandwidth",  "compute_capability",
                                                "multiprocessors", "granularity",
                                                "cudnn",           "reserved",
                                                "provider",        "name",
                                                "vendor"};
  return keys;
}

std::optional<int> ParseInt(std::string_view text, int min, int max) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < min || value > max) return {};
  return value;
}

Result<Device> ParseDevice(std::string_view text) {
  const auto wrong = [&] {
    return InvalidArgumentError("expected gpu:N, npu:N or fpga:N (N at most {}) before '=', found '{}'",
                                kMaxOrdinal, text);
  };
  const size_t colon = text.find(':');
  Device device;
  const std::string_view kind = text.substr(0, colon);
  if (kind == "gpu") {
    device.kind = DeviceKind::kGpu;
  } else if (kind == "npu") {
    device.kind = DeviceKind::kNpu;
  } else if (kind == "fpga") {
    device.kind = DeviceKind::kFpga;
  } else {
    return wrong();
  }
  if (colon == std::string_view::npos) return device;
  const std::optional<int> ordinal = ParseInt(text.substr(colon + 1), 0, kMaxOrdinal);
  if (!ordinal) return wrong();
  device.ordinal = static_cast<int16_t>(*ordinal);
  return device;
}

Status ApplyPreset(std::string_view name, DeviceDescription& device) {
  for (const Preset& preset : kPresets) {
    if (preset.name != name) continue;
    device.name = std::string(preset.marketing_name);
    device.memory_bytes = preset.memory_bytes;
    device.memory_bandwidth_bytes_per_s = preset.memory_gb_per_s * 1e9;
    device.link_bandwidth_bytes_per_s = preset.link_gb_per_s * 1e9;
    device.compute_capability_major = preset.compute_capability / 10;
    device.compute_capability_minor = preset.compute_capability % 10;
    device.multiprocessors = preset.multiprocessors;
    device.reserved_bytes = kReservedBytes;
    return Status();
  }
  const std::vector<std::string> names = DevicePresetNames();
  return InvalidArgumentError("there is no device preset '{}'; there are {}", name, fmt::join(names, ", "));
}

Status ApplyComputeCapability(std::string_view value, DeviceDescription& device) {
  const size_t point = value.find('.');
  const std::optional<int> major = ParseInt(value.substr(0, point), 1, 99);
  const std::optional<int> minor =
      point == std::string_view::npos ? 0 : ParseInt(value.substr(point + 1), 0, 9);
  if (!major || !minor) {
    return InvalidArgumentError("compute_capability: expected a version such as 8.9, found '{}'", value);
  }
  device.compute_capability_major = *major;
  device.compute_capability_minor = *minor;
  return Status();
}

Status ApplyKey(std::string_view key, std::string_view value, DeviceDescription& device) {
  const auto set_bytes = [&](uint64_t& bytes, uint64_t min) -> Status {
    const Result<uint64_t> parsed = ParseByteSize(value);
    if (!parsed.ok()) return parsed.status().WithContext(std::string(key));
    if (*parsed < min) return InvalidArgumentError("{}: expected at least {}, found {}", key, min, *parsed);
    bytes = *parsed;
    return Status();
  };
  const auto set_rate = [&](double& bytes_per_s) -> Status {
    uint64_t bytes = 0;
    LAMINA_RETURN_IF_ERROR(set_bytes(bytes, 1));
    bytes_per_s = static_cast<double>(bytes);
    return Status();
  };
  if (key == "memory") return set_bytes(device.memory_bytes, 1);
  if (key == "reserved") return set_bytes(device.reserved_bytes, 0);
  if (key == "granularity") return set_bytes(device.granularity_bytes, 1);
  if (key == "memory_bandwidth") return set_rate(device.memory_bandwidth_bytes_per_s);
  if (key == "link_bandwidth") return set_rate(device.link_bandwidth_bytes_per_s);
  if (key == "compute_capability") return ApplyComputeCapability(value, device);
  if (key == "multiprocessors") {
    const std::optional<int> count = ParseInt(value, 1, 100'000);
    if (!count) return InvalidArgumentError("multiprocessors: expected a whole number, found '{}'", value);
    device.multiprocessors = *count;
    return Status();
  }
  if (key == "cudnn") {
    device.cudnn_version = value == "none" ? "" : std::string(value);
    return Status();
  }
  if (key == "provider") {
    device.provider = std::string(value);
    return Status();
  }
  if (key == "name") {
    device.name = std::string(value);
    return Status();
  }
  if (key == "vendor") {
    device.vendor = std::string(value);
    return Status();
  }
  const std::string nearest = NearestWord(key, Keys());
  return InvalidArgumentError("unknown key '{}'{}", key,
                              nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest));
}

Result<DeviceDescription> Parse(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    return InvalidArgumentError("expected DEVICE=PRESET or DEVICE=KEY=VALUE,...");
  }
  DeviceDescription device;
  LAMINA_ASSIGN_OR_RETURN(device.device, ParseDevice(TrimSpaces(text.substr(0, equals))));
  device.provider = "cuda";
  device.vendor = "nvidia";
  device.granularity_bytes = kGranularityBytes;
  device.described = true;
  bool first = true;
  for (const std::string_view item : SplitTrimmed(text.substr(equals + 1), ',')) {
    const size_t assign = item.find('=');
    if (assign == std::string_view::npos) {
      if (!first) return InvalidArgumentError("expected KEY=VALUE, found '{}'", item);
      LAMINA_RETURN_IF_ERROR(ApplyPreset(item, device));
    } else {
      LAMINA_RETURN_IF_ERROR(
          ApplyKey(TrimSpaces(item.substr(0, assign)), TrimSpaces(item.substr(assign + 1)), device));
    }
    first = false;
  }
  if (device.memory_bytes == 0) return InvalidArgumentError("its memory is not given: memory=8GiB");
  if (device.reserved_bytes >= device.memory_bytes) {
    return InvalidArgumentError("{} reserved bytes leave nothing of {} bytes of memory",
                                device.reserved_bytes, device.memory_bytes);
  }
  if (device.name.empty()) device.name = "described device";
  return device;
}

}  // namespace

std::vector<std::string> DevicePresetNames() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

Result<DeviceDescription> ParseDeviceSpec(std::string_view text) {
  Result<DeviceDescription> device = Parse(text);
  if (!device.ok()) return device.status().WithContext(fmt::format("device '{}'", text));
  return device;
}

Result<std::vector<DeviceDescription>> ParseDeviceSpecs(std::span<const std::string> texts) {
  std::vector<DeviceDescription> devices;
  for (const std::string& text : texts) {
    LAMINA_ASSIGN_OR_RETURN(DeviceDescription device, ParseDeviceSpec(text));
    for (const DeviceDescription& other : devices) {
      if (other.device == device.device) {
        return InvalidArgumentError("{} is described twice", device.device.ToString());
      }
    }
    devices.push_back(std::move(device));
  }
  std::sort(devices.begin(), devices.end(), [](const DeviceDescription& a, const DeviceDescription& b) {
    return std::pair(a.device.kind, a.device.ordinal) < std::pair(b.device.kind, b.device.ordinal);
  });
  int16_t expected = 0;
  for (size_t i = 0; i < devices.size(); ++i) {
    const Device& device = devices[i].device;
    expected =
        i > 0 && devices[i - 1].device.kind == device.kind ? static_cast<int16_t>(expected + 1) : int16_t{0};
    if (device.ordinal != expected) {
      return InvalidArgumentError("{} is described, but the device before it is not", device.ToString());
    }
  }
  return devices;
}

}  // namespace lamina
