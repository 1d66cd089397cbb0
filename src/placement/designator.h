// Names of devices as users write them in rules, budgets and flags.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/status.h"
#include "provider/device_description.h"

namespace lamina {

// The device that a designator means, as a position in `devices`:
//   cpu             the CPU provider's device
//   gpu             the first GPU; gpu:N the N-th over all providers in their order
//   gpu:VENDOR      the first GPU of nvidia, amd, intel or another vendor by name
//   accelerator     the first device that is not the CPU
//   npu, fpga       the first of that kind
//   NAME            the first device of the provider called exactly NAME; NAME:N its N-th
// Kinds and vendors are compared without regard to case, provider names with. Nothing where no device
// answers.
std::optional<size_t> FindDevice(std::string_view designator, std::span<const DeviceDescription> devices);

// NOT_FOUND naming the designator and those that would work.
Status UnknownDeviceError(std::string_view designator, std::span<const DeviceDescription> devices);

}  // namespace lamina
