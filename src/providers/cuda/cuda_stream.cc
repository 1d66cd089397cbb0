#include "providers/cuda/cuda_stream.h"

#include <utility>

#include "base/error.h"
#include "base/os.h"

namespace lamina::cuda {
namespace {

class CudaNotification : public Notification {
 public:
  CudaNotification(CudaDevice& device, void* stream, void* event)
      : device_(device), stream_(stream), event_(event) {}
  ~CudaNotification() override {
    static_cast<void>(device_.Call(&DeviceApi::destroy_event, "destroying an event", event_));
  }

  Status Record() override {
    return device_.Call(&DeviceApi::record_event, "recording an event", event_, stream_);
  }
  Status WaitOnStream(Stream& consumer) override {
    return device_.Call(&DeviceApi::wait_for_event, "waiting for an event", consumer.handle(), event_);
  }
  Status WaitOnHost() override {
    return device_.Call(&DeviceApi::synchronize_event, "waiting for an event", event_);
  }

 private:
  CudaDevice& device_;
  void* const stream_;
  void* const event_;
};

class CudaGraph : public RecordedWork {
 public:
  CudaGraph(CudaDevice& device, void* graph) : device_(device), graph_(graph) {}
  ~CudaGraph() override {
    static_cast<void>(device_.Call(&DeviceApi::destroy_graph, "destroying a graph", graph_));
  }
  Status Launch(Stream& stream) override {
    return device_.Call(&DeviceApi::launch_graph, "launching a graph", graph_, stream.handle());
  }

 private:
  CudaDevice& device_;
  void* const graph_;
};

class CudaStream : public Stream {
 public:
  CudaStream(CudaDevice& device, void* stream) : device_(device), stream_(stream) {}
  ~CudaStream() override {
    static_cast<void>(device_.Call(&DeviceApi::destroy_stream, "destroying a stream", stream_));
  }

  Device device() const override { return device_.device(); }
  void* handle() const override { return stream_; }
  Status Flush() override { return Status(); }  // nothing is held back
  Status Synchronize() override {
    return device_.Call(&DeviceApi::synchronize_stream, "waiting for a stream", stream_);
  }
  Result<std::unique_ptr<Notification>> CreateNotification() override {
    void* event = nullptr;
    LAMINA_RETURN_IF_ERROR(device_.Call(&DeviceApi::create_event, "creating an event", &event));
    return std::unique_ptr<Notification>(std::make_unique<CudaNotification>(device_, stream_, event));
  }
  Status BeginRecording() override { return device_.Call(&DeviceApi::begin_recording, "recording", stream_); }
  Result<std::unique_ptr<RecordedWork>> EndRecording() override {
    void* graph = nullptr;
    LAMINA_RETURN_IF_ERROR(device_.Call(&DeviceApi::end_recording, "recording", stream_, &graph));
    return std::unique_ptr<RecordedWork>(std::make_unique<CudaGraph>(device_, graph));
  }

 private:
  CudaDevice& device_;
  void* const stream_;
};

// The driver pins whole pages.
std::span<const std::byte> PagesOf(std::span<const std::byte> memory) {
  const auto page = static_cast<uintptr_t>(PageSizeBytes());
  const uintptr_t before = reinterpret_cast<uintptr_t>(memory.data()) % page;
  return {memory.data() - before, (memory.size() + before + page - 1) / page * page};
}

}  // namespace

Result<std::unique_ptr<Stream>> CreateCudaStream(CudaDevice& device) {
  void* stream = nullptr;
  LAMINA_RETURN_IF_ERROR(device.Call(&DeviceApi::create_stream, "creating a stream", &stream));
  return std::unique_ptr<Stream>(std::make_unique<CudaStream>(device, stream));
}

CudaDevice* CudaDataTransfer::Find(const Device& device) const {
  for (const auto& candidate : devices_) {
    if (candidate->device() == device) return candidate.get();
  }
  return nullptr;
}

bool CudaDataTransfer::CanCopy(const Device& source, const Device& destination) const {
  const bool from_gpu = Find(source) != nullptr;
  const bool to_gpu = Find(destination) != nullptr;
  return (from_gpu && to_gpu) || (from_gpu && destination.is_host()) || (source.is_host() && to_gpu);
}

Status CudaDataTransfer::CopyAsync(const MemoryCopy& copy, Stream* stream) {
  if (copy.size_bytes == 0) return Status();
  CudaDevice* device = Find(stream ? stream->device() : copy.destination_device);
  if (!device) device = Find(copy.source_device);
  if (!device) {
    return InternalError("a copy from {} to {} was given to the CUDA provider", copy.source_device.ToString(),
                         copy.destination_device.ToString());
  }
  return device->Call(&DeviceApi::copy, "copying", copy.destination, copy.source, copy.size_bytes,
                      stream ? stream->handle() : nullptr);
}

Status CudaHostRegistration::Register(std::span<const std::byte> memory, HostAccess access) {
  const bool read_only = access == HostAccess::kReadOnly;
  if (read_only && !can_register_read_only_) {
    return UnsupportedError("the driver registers no read-only memory");
  }
  const std::span<const std::byte> pages = PagesOf(memory);
  return device_.Call(&DeviceApi::register_host, "registering host memory", pages.data(), pages.size(),
                      static_cast<int>(read_only));
}

Status CudaHostRegistration::Unregister(std::span<const std::byte> memory) {
  return device_.Call(&DeviceApi::unregister_host, "unregistering host memory", PagesOf(memory).data());
}

}  // namespace lamina::cuda
