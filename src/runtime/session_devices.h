// The devices of a session: their providers and memory.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lamina/session.h"
#include "lamina/status.h"
#include "lamina/value.h"
#include "memory/bfc_arena.h"
#include "placement/placement.h"
#include "provider/provider.h"
#include "runtime/env_impl.h"
#include "weights/load/device_loader.h"

namespace lamina {

struct SessionDevice {
  DeviceDescription description;
  std::shared_ptr<ExecutionProvider> provider;
  std::unique_ptr<Allocator> memory;  // straight from the device
  BfcArenaConfig arena;               // of the arenas over it (ep.NAME.arena.KEY)
  DeviceLoaderOptions loading;        // ep.NAME.external_data_loader_KEY
  // For devices of providers without a loader of their own; null on the host.
  std::unique_ptr<DeviceLoader> generic_loader;

  const Device& device() const { return description.device; }
  bool is_host() const { return description.device.is_host(); }
  // Null where constants are copied from mapped files.
  IExternalDataLoader* loader() const {
    IExternalDataLoader* const own = provider->external_data_loader();
    return own ? own : generic_loader.get();
  }
  // "gpu:0": how messages name it.
  std::string name() const { return description.device.ToString(); }

  // Done on return. REQUIRES: not the host.
  Status CopyFromHost(const void* source, void* destination, uint64_t size_bytes) const;
  Status CopyToHost(const void* source, void* destination, uint64_t size_bytes) const;
};

// In the order of priority; the host is last.
using SessionDevices = std::vector<SessionDevice>;

// Makes the providers that the options ask for (all of the environment where they name none) and opens their
// devices. NOT_FOUND for a provider that the environment does not have; INVALID_ARGUMENT for an option of
// one; where no provider was named, one that cannot be made is left out with a warning.
Result<SessionDevices> OpenDevices(const EnvImpl& env, const SessionOptions& options);

// For the partitioner; refers to `devices`.
std::vector<PlacementDevice> PlacementDevicesOf(const SessionDevices& devices);

}  // namespace lamina
