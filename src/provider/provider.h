// An execution provider: kernels for the nodes of a graph on devices of one family, and the memory they use.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/status.h"
#include "provider/allocator.h"
#include "provider/device_description.h"
#include "provider/kernel_registry.h"

namespace lamina {

// Copies between the host and devices of a provider, and between its devices. Thread-safe.
class DataTransfer {
 public:
  virtual ~DataTransfer() = default;
  virtual bool CanCopy(const Device& source, const Device& destination) const = 0;
  // Copies size_bytes of the tensors' memory; on `stream` where it is not null (then asynchronously), else
  // done on return. REQUIRES: CanCopy, equal sizes.
  virtual Status Copy(const Tensor& source, Tensor& destination, void* stream) = 0;
};

class ExecutionProvider {
 public:
  virtual ~ExecutionProvider() = default;
  virtual std::string_view name() const = 0;
  virtual const KernelRegistry& kernels() const = 0;
  // Present devices, in the order their ordinals count. The CPU provider has one.
  virtual std::span<const DeviceDescription> devices() const = 0;
  virtual Allocator& allocator(const Device& device, MemoryKind kind) = 0;
  // Null where host code reads and writes the memory directly.
  virtual DataTransfer* data_transfer() { return nullptr; }
};

}  // namespace lamina
