// An execution provider: kernels for the nodes of a graph on devices of one family, and the memory they use.
//
// It has two halves. The host half says which nodes it takes and with which kernels, types and scratch sizes:
// planning asks nothing else, so that a plan for a device can be made where there is none. The device half,
// the rest of ExecutionProvider, has present devices: memory, streams, copies.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/status.h"
#include "provider/allocator.h"
#include "provider/capability.h"
#include "provider/data_transfer.h"
#include "provider/device_description.h"
#include "provider/external_data_loader.h"
#include "provider/host_registration.h"
#include "provider/kernel_registry.h"
#include "provider/stream.h"

namespace lamina {

// Immutable after creation, so safe to use from several threads.
class ProviderHostHalf {
 public:
  virtual ~ProviderHostHalf() = default;
  // As rules and flags write it: "cpu", "cuda", "sim".
  virtual std::string_view name() const = 0;
  virtual std::string_view vendor() const = 0;  // lower case
  virtual DeviceKind device_kind() const = 0;
  virtual const KernelRegistry& kernel_registry() const = 0;

  // By default every node that the registry has a kernel for, and the registry's text for the others.
  virtual Result<Capability> GetCapability(const CapabilityRequest& request) const;
};

// What a provider may know of a run.
struct RunInfo {
  uint64_t id = 0;  // of the session's runs
  std::string_view tag;
};

// Thread-safe but for the streams it makes.
class ExecutionProvider : public ProviderHostHalf {
 public:
  // Present devices, in the order of their ordinals. The CPU provider has one.
  virtual std::span<const DeviceDescription> devices() const = 0;
  // Bytes of the device that could be allocated now; nothing where it cannot be told.
  virtual std::optional<uint64_t> available_resource_bytes(const Device& device) const {
    static_cast<void>(device);
    return std::nullopt;
  }

  // Raw memory, without an arena. The provider must outlive the allocator. kPinned: host memory that the
  // device copies from at full speed; UNSUPPORTED where there is none.
  virtual Result<std::unique_ptr<Allocator>> CreateAllocator(const Device& device, MemoryKind kind) = 0;
  // Null where host code reads and writes the memory directly (the CPU).
  virtual DataTransfer* data_transfer() { return nullptr; }
  // Null where kernels are done when Compute returns and nothing is to be waited for (the CPU).
  virtual Result<std::unique_ptr<Stream>> CreateStream(const Device& device, StreamPurpose purpose) {
    static_cast<void>(device);
    static_cast<void>(purpose);
    return std::unique_ptr<Stream>();
  }
  // Null where only memory of the provider's own allocators is copied from at full speed.
  virtual HostRegistration* host_registration() { return nullptr; }
  // Null where weights are loaded in the generic way.
  virtual IExternalDataLoader* external_data_loader() { return nullptr; }

  // The kernel of a fused group: `node` stands for the nodes of `body`, whose formal inputs and outputs are
  // the node's by position (constants among them). UNSUPPORTED by default.
  virtual Result<std::unique_ptr<Kernel>> Compile(const NodeInfo& node, const Graph& body);

  // Before the first and after the last kernel of each run, a failed one included; `streams` are the run's
  // compute streams on devices of this provider.
  virtual Status OnRunStart(const RunInfo& run, std::span<Stream* const> streams) {
    static_cast<void>(run);
    static_cast<void>(streams);
    return Status();
  }
  virtual Status OnRunEnd(const RunInfo& run, std::span<Stream* const> streams) {
    static_cast<void>(run);
    static_cast<void>(streams);
    return Status();
  }
};

// Options of a provider: `ep.NAME.KEY` of the session without the prefix.
using ProviderOptions = std::map<std::string, std::string, std::less<>>;

struct ProviderConfig {
  ProviderOptions options;
  // The ordinal of its first device: those before belong to providers of the same kind with a higher
  // priority.
  int16_t first_ordinal = 0;
};

// Makes providers; registered with the environment. Thread-safe.
class ProviderFactory {
 public:
  virtual ~ProviderFactory() = default;
  virtual std::string_view name() const = 0;
  virtual std::string_view vendor() const = 0;
  virtual DeviceKind device_kind() const = 0;
  // INVALID_ARGUMENT names the option that is unknown or has a bad value. Several sessions may share what is
  // returned.
  virtual Result<std::shared_ptr<ExecutionProvider>> Create(const ProviderConfig& config) = 0;
};

}  // namespace lamina
