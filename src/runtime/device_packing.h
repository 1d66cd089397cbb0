// Packing of weights on devices: originals are brought there for a moment, the kernels make of them what they
// like to read.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "base/thread_pool.h"
#include "lamina/status.h"
#include "provider/kernel.h"
#include "runtime/device_constants.h"
#include "runtime/executable.h"
#include "runtime/session_devices.h"

namespace lamina {

// A weight that the kernel of a step packs on the step's device.
struct DevicePacking {
  size_t step = 0;
  int input = 0;
  PrepackDeclaration declaration;
  size_t room = 0;  // of DeviceConstants, for the packed weight
};

struct DevicePackingContext {
  const SessionDevices& devices;
  DeviceConstants& constants;  // after its Load
  ThreadPool& threads;
  const DeviceConstants::Progress& progress;
};

// Packs `packings`, whose steps are in `steps`, and tells the steps where their packed weights are. Beside
// these a device needs memory for originals and scratch, and the plan has as much as the packing takes that
// takes most: as many weights as fit there are loaded and packed together, so that the loader has more to do
// at once than one small weight. Errors name node and device.
Status PackWeightsOnDevices(const DevicePackingContext& context, std::span<const DevicePacking> packings,
                            std::span<Step> steps);

}  // namespace lamina
