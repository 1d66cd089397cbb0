#include "plan/plan.h"

namespace lamina {

std::string_view EstimateSourceName(EstimateSource source) {
  switch (source) {
    case EstimateSource::kExact:
      return "exact";
    case EstimateSource::kBound:
      return "bound";
    case EstimateSource::kDeclared:
      return "declared";
    case EstimateSource::kHeuristic:
      return "heuristic";
  }
  return "";
}

std::string_view ResidencyName(Residency residency) {
  switch (residency) {
    case Residency::kResident:
      return "resident";
    case Residency::kHost:
      return "host";
    case Residency::kStreamed:
      return "streamed";
  }
  return "";
}

const Plan::DeviceMemory* Plan::FindDevice(std::string_view name) const {
  for (const DeviceMemory& device : devices) {
    if (device.name == name) return &device;
  }
  return nullptr;
}

uint64_t Plan::resident_bytes() const {
  uint64_t bytes = 0;
  for (const DeviceMemory& device : devices) {
    if (device.name != "cpu") bytes += device.weights_bytes + device.kv_cache_bytes;
  }
  return bytes;
}

}  // namespace lamina
