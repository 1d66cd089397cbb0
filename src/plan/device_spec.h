// Devices as users describe them, so that a plan for one can be made where it is not:
//
//   gpu:0=h100
//   gpu:0=memory=8GiB,memory_bandwidth=272GB,link_bandwidth=25GB,compute_capability=8.9,multiprocessors=24,
//         granularity=2MiB,cudnn=none,reserved=600MiB,provider=cuda
//   gpu:1=h100,memory=40GiB        a preset with something changed
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/status.h"
#include "provider/device_description.h"

namespace lamina {

// The devices of `--device`. Keys as above; bandwidths are sizes per second; `name`, `vendor` are text.
// Without `provider` the CUDA provider's host half answers. `memory` must come from a preset or a key.
// INVALID_ARGUMENT names the text, the key and what was expected; an unknown preset is answered with those
// that exist.
Result<DeviceDescription> ParseDeviceSpec(std::string_view text);

// All of them; INVALID_ARGUMENT where two describe the same device or ordinals of a kind leave a gap.
Result<std::vector<DeviceDescription>> ParseDeviceSpecs(std::span<const std::string> texts);

// Names of the presets, for help and messages.
std::vector<std::string> DevicePresetNames();

}  // namespace lamina
