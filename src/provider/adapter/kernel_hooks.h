// What a provider that exports C++ kernels adds to them: how its memory is reached, where kernels run, which
// threads they have. The defaults suit memory that host code reaches and kernels that run where they are
// called.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/function_ref.h"
#include "base/thread_pool.h"
#include "lamina/lamina_ep.h"
#include "lamina/status.h"
#include "provider/device_description.h"

namespace lamina::adapter {

// A call of a kernel.
struct KernelCall {
  std::string_view node;
  std::string_view op_type;
  int32_t device = 0;                      // index of the provider's device
  LaminaSyncStreamImpl* stream = nullptr;  // null where the session has none
};

class KernelHooks {
 public:
  virtual ~KernelHooks() = default;
  // The provider's devices, by index. Planning figures in them (multiprocessors) reach the kernels.
  virtual std::span<const DeviceDescription> devices() const = 0;
  // Where kernel code reads and writes what the host calls `address` in memory of `device`.
  virtual Result<void*> KernelAddress(int32_t device, void* address) {
    static_cast<void>(device);
    return address;
  }
  // Runs `work`, a kernel, and returns its status; the host's objects are valid until this returns.
  virtual Status Run(const KernelCall& call, FunctionRef<Status()> work) {
    static_cast<void>(call);
    return work();
  }
  // Threads of the kernels of a device.
  virtual ThreadPool& threads(int32_t device) = 0;
};

}  // namespace lamina::adapter
