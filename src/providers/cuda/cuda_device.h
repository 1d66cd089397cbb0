// One GPU: the device half's functions with Status, and its context, which is created in the background.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <utility>

#include "lamina/status.h"
#include "lamina/types.h"
#include "providers/cuda/cuda_library.h"

namespace lamina::cuda {

// Thread-safe.
class CudaDevice {
 public:
  // `ordinal` counts the driver's devices, `device` is the designator.
  CudaDevice(std::shared_ptr<const CudaLibrary> library, int ordinal, const Device& device);
  // Waits for the context.
  ~CudaDevice();
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const Device& device() const { return device_; }
  int ordinal() const { return ordinal_; }
  const CudaLibrary& library() const { return *library_; }

  // Begins to create the context on a thread of its own, if nobody has yet: a fraction of a second during
  // which the model can be read.
  void CreateContextInBackground();
  // Waits until there is a context; every call below does. Its status.
  Status WaitForContext();

  // Calls a function of the device half for this device: Call(&DeviceApi::alloc, "allocating", bytes,
  // &memory).
  template <typename... Parameters, typename... Arguments>
  Status Call(int (*DeviceApi::*function)(int, Parameters...), const char* what, Arguments... arguments) {
    LAMINA_RETURN_IF_ERROR(WaitForContext());
    return library_->StatusOf((library_->api().*function)(ordinal_, arguments...), ordinal_, what);
  }

 private:
  const std::shared_ptr<const CudaLibrary> library_;
  const int ordinal_;
  const Device device_;
  std::once_flag context_started_;
  std::shared_future<Status> context_;
};

}  // namespace lamina::cuda
