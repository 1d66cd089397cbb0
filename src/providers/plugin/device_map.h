// Devices of one plugin: the host counts a kind's devices over all providers, the plugin its own from 0.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "lamina/lamina_ep.h"
#include "lamina/types.h"

namespace lamina::plugin {

struct DeviceMap {
  DeviceKind kind = DeviceKind::kGpu;
  int16_t first_ordinal = 0;
  int32_t count = 0;

  Device DeviceAt(int32_t index) const { return {kind, static_cast<int16_t>(first_ordinal + index)}; }
  // Whether the device is the host or one of the plugin's.
  bool Has(const Device& device) const { return device.is_host() || IsOwn(device); }
  bool IsOwn(const Device& device) const {
    return device.kind == kind && device.ordinal >= first_ordinal && device.ordinal < first_ordinal + count;
  }
  // The plugin's index, LAMINA_HOST_DEVICE, or INTERNAL for a device of another provider.
  Result<int32_t> IndexOf(const Device& device) const {
    if (device.is_host()) return int32_t{LAMINA_HOST_DEVICE};
    if (IsOwn(device)) return static_cast<int32_t>(device.ordinal - first_ordinal);
    return InternalError("device {} belongs to another provider", device.ToString());
  }
};

}  // namespace lamina::plugin
