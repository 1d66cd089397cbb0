// Streams and events of a GPU, and copies on them.
#pragma once

#include <memory>
#include <span>

#include "lamina/status.h"
#include "provider/data_transfer.h"
#include "provider/host_registration.h"
#include "provider/stream.h"
#include "providers/cuda/cuda_device.h"

namespace lamina::cuda {

// `device` outlives it.
Result<std::unique_ptr<Stream>> CreateCudaStream(CudaDevice& device);

// Between the host and the GPUs, and between GPUs. The devices outlive it.
class CudaDataTransfer : public DataTransfer {
 public:
  explicit CudaDataTransfer(std::span<const std::unique_ptr<CudaDevice>> devices) : devices_(devices) {}
  bool CanCopy(const Device& source, const Device& destination) const override;
  Status CopyAsync(const MemoryCopy& copy, Stream* stream) override;

 private:
  CudaDevice* Find(const Device& device) const;
  std::span<const std::unique_ptr<CudaDevice>> devices_;
};

// Pins for all GPUs of the process. The devices outlive it; there is at least one.
class CudaHostRegistration : public HostRegistration {
 public:
  CudaHostRegistration(std::span<const std::unique_ptr<CudaDevice>> devices, bool can_register_read_only)
      : device_(*devices.front()), can_register_read_only_(can_register_read_only) {}
  bool CanRegisterReadOnly() const override { return can_register_read_only_; }
  Status Register(std::span<const std::byte> memory, HostAccess access) override;
  Status Unregister(std::span<const std::byte> memory) override;

 private:
  CudaDevice& device_;
  const bool can_register_read_only_;
};

}  // namespace lamina::cuda
