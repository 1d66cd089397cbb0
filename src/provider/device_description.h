// What planning needs to know of a device: measured from a present one or described by the user.
#pragma once

#include <cstdint>
#include <string>

#include "lamina/types.h"

namespace lamina {

struct DeviceDescription {
  Device device;
  std::string provider;  // name of the execution provider that serves it
  std::string name;      // marketing name, or the preset's
  std::string vendor;    // lower case: "nvidia", "amd", "intel", "sim"
  uint64_t memory_bytes = 0;
  uint64_t reserved_bytes = 0;     // not available to plans (driver, display)
  uint64_t granularity_bytes = 1;  // allocations are rounded up to this
  double memory_bandwidth_bytes_per_s = 0;
  double link_bandwidth_bytes_per_s = 0;  // host to device
  int compute_capability_major = 0;
  int compute_capability_minor = 0;
  int multiprocessors = 0;
  std::string cudnn_version;  // empty: none
  bool described = false;     // by the user: nothing can run on it
};

}  // namespace lamina
