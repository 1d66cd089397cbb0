#include "runtime/fit_rounds.h"

#include <algorithm>

#include "base/log.h"

namespace lamina {

FitRounds::FitRounds(const SessionConfig& config)
    : rounds_left_(config.gpu_layers.empty() && config.partitioning_settings.empty() ? kMaxRounds - 1 : 0) {}

bool FitRounds::TryAgain(const Status& status, std::span<const PlacementDevice> devices) {
  const MemoryShortage* shortage = status.memory_shortage();
  if (!shortage || shortage->needed_bytes <= shortage->available_bytes) return false;
  if (first_shortage_.ok()) first_shortage_ = status;
  const auto device = std::find_if(devices.begin(), devices.end(), [&](const PlacementDevice& candidate) {
    return candidate.description.device.ToString() == shortage->device;
  });
  if (device == devices.end() || rounds_left_ == 0) return false;
  --rounds_left_;
  const uint64_t missing_bytes = shortage->needed_bytes - shortage->available_bytes;
  withheld_bytes_.resize(devices.size());
  withheld_bytes_[static_cast<size_t>(device - devices.begin())] += missing_bytes;
  LogInfo("{}: what was placed there needs {} bytes more than there are: it is fitted again",
          shortage->device, missing_bytes);
  return true;
}

Status FitRounds::Outcome(const Status& status) const {
  return status.memory_shortage() && !first_shortage_.ok() ? first_shortage_ : status;
}

}  // namespace lamina
