#include "runtime/run_queues.h"

#include "base/error.h"

namespace lamina {

Result<std::unique_ptr<RunQueues>> RunQueues::Create(const SessionDevices& devices,
                                                     std::span<const CopyTask> copies) {
  std::unique_ptr<RunQueues> queues(new RunQueues(devices, copies));
  LAMINA_RETURN_IF_ERROR(queues->Init());
  return queues;
}

RunQueues::~RunQueues() = default;

Status RunQueues::Init() {
  queues_.resize(devices_.size());
  for (size_t i = 0; i < devices_.size(); ++i) {
    const SessionDevice& device = devices_[i];
    if (device.is_host()) continue;
    const auto open = [&](StreamPurpose purpose) -> Result<std::unique_ptr<Stream>> {
      Result<std::unique_ptr<Stream>> stream = device.provider->CreateStream(device.device(), purpose);
      if (!stream.ok()) return stream.status().WithContext(device.name());
      if (*stream == nullptr) return InternalError("{}: the provider makes no streams", device.name());
      return stream;
    };
    LAMINA_ASSIGN_OR_RETURN(queues_[i].kernels, open(StreamPurpose::kCompute));
    LAMINA_ASSIGN_OR_RETURN(queues_[i].copies, open(StreamPurpose::kCopy));
    LAMINA_ASSIGN_OR_RETURN(queues_[i].computed, queues_[i].kernels->CreateNotification());
  }
  for (const Queue& queue : queues_) kernel_streams_.push_back(queue.kernels.get());
  for (const CopyTask& copy : copies_) {
    Arrival arrival;
    arrival.device = DeviceAt(copy.from).is_host() ? copy.to : copy.from;
    LAMINA_ASSIGN_OR_RETURN(arrival.notification, QueueOf(arrival.device).copies->CreateNotification());
    arrivals_.push_back(std::move(arrival));
  }
  return Status();
}

std::string RunQueues::NameOf(const CopyTask& copy) const {
  return fmt::format("copy from {} to {}", DeviceAt(copy.from).name(), DeviceAt(copy.to).name());
}

Status RunQueues::FollowKernels(int32_t device, int32_t after) {
  if (DeviceAt(after).is_host()) return Status();
  Notification& computed = *QueueOf(after).computed;
  LAMINA_RETURN_IF_ERROR(computed.Record());
  return computed.WaitOnStream(*QueueOf(device).copies);
}

Status RunQueues::Transfer(int32_t device, Stream& stream, const Tensor& source, Tensor& destination) {
  const MemoryCopy copy{source.raw_data(), source.device(), destination.mutable_raw_data(),
                        destination.device(), source.size_bytes()};
  if (copy.size_bytes == 0) return Status();
  DataTransfer* transfer = DeviceAt(device).provider->data_transfer();
  if (!transfer || !transfer->CanCopy(copy.source_device, copy.destination_device)) {
    return UnsupportedError("provider {} cannot copy from {} to {}", DeviceAt(device).provider->name(),
                            copy.source_device.ToString(), copy.destination_device.ToString());
  }
  return transfer->CopyAsync(copy, &stream);
}

Status RunQueues::StartCopy(int32_t copy, const Tensor& source, Tensor& destination) {
  const CopyTask& task = copies_[static_cast<size_t>(copy)];
  Arrival& arrival = arrivals_[static_cast<size_t>(copy)];
  const auto start = [&]() -> Status {
    LAMINA_RETURN_IF_ERROR(FollowKernels(arrival.device, task.from));
    LAMINA_RETURN_IF_ERROR(FollowKernels(arrival.device, task.to));
    LAMINA_RETURN_IF_ERROR(Transfer(arrival.device, *QueueOf(arrival.device).copies, source, destination));
    return arrival.notification->Record();
  };
  Status status = start();
  if (!status.ok()) return status.WithContext(NameOf(task));
  arrival.started = true;
  return status;
}

Status RunQueues::WaitForCopy(int32_t copy) {
  const CopyTask& task = copies_[static_cast<size_t>(copy)];
  Arrival& arrival = arrivals_[static_cast<size_t>(copy)];
  if (!arrival.started) return Status();
  Notification& arrived = *arrival.notification;
  const auto wait = [&]() -> Status {
    if (DeviceAt(task.to).is_host()) return arrived.WaitOnHost();
    // The source's memory may be used again by kernels put on its device from here on.
    if (!DeviceAt(task.from).is_host()) {
      LAMINA_RETURN_IF_ERROR(arrived.WaitOnStream(*QueueOf(task.from).kernels));
    }
    return arrived.WaitOnStream(*QueueOf(task.to).kernels);
  };
  Status status = wait();
  return status.ok() ? status : status.WithContext(NameOf(task));
}

Status RunQueues::StartFetch(int32_t device, const Tensor& source, Tensor& destination) {
  Status status = FollowKernels(device, device);
  if (status.ok()) status = Transfer(device, *QueueOf(device).copies, source, destination);
  return status.ok() ? status : status.WithContext(DeviceAt(device).name());
}

Status RunQueues::CopyAmongKernels(int32_t device, const Tensor& source, Tensor& destination) {
  Status status = Transfer(device, *QueueOf(device).kernels, source, destination);
  return status.ok() ? status : status.WithContext(DeviceAt(device).name());
}

namespace {

// Calls `call` once for every provider with the kernel streams of its devices.
template <typename Call>
Status ForEachProvider(const SessionDevices& devices, const std::vector<Stream*>& streams, Call call) {
  Status first;
  for (size_t begin = 0, end = 0; begin < devices.size(); begin = end) {
    for (end = begin; end < devices.size() && devices[end].provider == devices[begin].provider;) ++end;
    if (devices[begin].is_host()) continue;
    const Status status = call(*devices[begin].provider, std::span(streams).subspan(begin, end - begin));
    if (first.ok() && !status.ok()) first = status.WithContext(devices[begin].name());
  }
  return first;
}

}  // namespace

Status RunQueues::Start(const RunInfo& run) {
  for (Arrival& arrival : arrivals_) arrival.started = false;
  return ForEachProvider(
      devices_, kernel_streams_,
      [&](ExecutionProvider& provider, std::span<Stream* const> of) { return provider.OnRunStart(run, of); });
}

Status RunQueues::Finish(const RunInfo& run) {
  Status first;
  const auto keep = [&](const Status& status, const SessionDevice& device) {
    if (first.ok() && !status.ok()) first = status.WithContext(device.name());
  };
  for (size_t i = 0; i < queues_.size(); ++i) {
    if (!queues_[i].kernels) continue;
    keep(queues_[i].kernels->Synchronize(), devices_[i]);
    keep(queues_[i].copies->Synchronize(), devices_[i]);
  }
  const Status ended = ForEachProvider(
      devices_, kernel_streams_,
      [&](ExecutionProvider& provider, std::span<Stream* const> of) { return provider.OnRunEnd(run, of); });
  return first.ok() ? ended : first;
}

}  // namespace lamina
