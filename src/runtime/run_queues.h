// The streams of one run at a time: for every device but the host one for kernels and one for copies.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lamina/status.h"
#include "lamina/value.h"
#include "placement/copy_schedule.h"
#include "provider/provider.h"
#include "runtime/session_devices.h"

namespace lamina {

// Reused by runs one after the other. Errors name the device.
class RunQueues {
 public:
  // `devices` and `copies` must outlive the object.
  static Result<std::unique_ptr<RunQueues>> Create(const SessionDevices& devices,
                                                   std::span<const CopyTask> copies);
  ~RunQueues();

  // What kernels on the device get as their stream; null on the host.
  void* kernel_stream(int32_t device) const {
    const Stream* stream = queues_[static_cast<size_t>(device)].kernels.get();
    return stream ? stream->handle() : nullptr;
  }

  // Puts the copy on the copy stream of its device: it begins when the kernels put there before are done.
  Status StartCopy(int32_t copy, const Tensor& source, Tensor& destination);
  // The reader of the copy's result, host or kernel stream, waits for it. Nothing where it was not started.
  Status WaitForCopy(int32_t copy);
  // Fetches a tensor to host memory, after the kernels of its device.
  Status StartFetch(int32_t device, const Tensor& source, Tensor& destination);
  // Puts a copy between pinned memory and the device among its kernels.
  Status CopyAmongKernels(int32_t device, const Tensor& source, Tensor& destination);
  Stream& kernels(int32_t device) { return *QueueOf(device).kernels; }

  Status Start(const RunInfo& run);
  // Waits for everything, of all devices, and returns the first error.
  Status Finish(const RunInfo& run);

 private:
  struct Queue {
    std::unique_ptr<Stream> kernels;
    std::unique_ptr<Stream> copies;
    std::unique_ptr<Notification> computed;  // on `kernels`
  };
  struct Arrival {
    std::unique_ptr<Notification> notification;  // on the copy stream of `device`
    int32_t device = -1;
    bool started = false;
  };

  RunQueues(const SessionDevices& devices, std::span<const CopyTask> copies)
      : devices_(devices), copies_(copies) {}
  Status Init();
  std::string NameOf(const CopyTask& copy) const;
  // The copy stream of `device` waits for the kernels of `after`.
  Status FollowKernels(int32_t device, int32_t after);
  Status Transfer(int32_t device, Stream& stream, const Tensor& source, Tensor& destination);
  const SessionDevice& DeviceAt(int32_t device) const { return devices_[static_cast<size_t>(device)]; }
  Queue& QueueOf(int32_t device) { return queues_[static_cast<size_t>(device)]; }

  const SessionDevices& devices_;
  std::span<const CopyTask> copies_;
  std::vector<Queue> queues_;            // by device
  std::vector<Stream*> kernel_streams_;  // by device; null on the host
  std::vector<Arrival> arrivals_;        // by copy
};

}  // namespace lamina
