#include "support/test_accelerator.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "providers/cpu/cpu_provider.h"
#include "support/allocation_counter.h"

namespace lamina::testing {
namespace {

constexpr uint64_t kAlignment = 256;
constexpr int kFresh = 0xEE;
constexpr int kFreed = 0xDD;

bool IsNth(int64_t count, const std::atomic<int64_t>& nth) { return nth != 0 && count == nth; }

class AcceleratorMemory : public Allocator {
 public:
  AcceleratorMemory(Device device, AcceleratorLog* log) : device_(device), log_(log) {}
  Device device() const override { return device_; }

  Result<void*> Alloc(uint64_t bytes) override {
    if (log_->device_lost) return DeviceLostError("{} is gone", device_.ToString());
    if (IsNth(++log_->allocations, log_->failing_allocation)) {
      return Status::OutOfMemory(fmt::format("{} has no {} bytes", device_.ToString(), bytes),
                                 MemoryShortage{device_.ToString(), bytes, 0, {}});
    }
    const uint64_t rounded = std::max<uint64_t>((bytes + kAlignment - 1) / kAlignment, 1) * kAlignment;
    void* memory = std::aligned_alloc(kAlignment, rounded);
    if (!memory) return ResourceExhaustedError("no memory");
    std::memset(memory, kFresh, rounded);
    const std::lock_guard lock(mutex_);
    sizes_[memory] = rounded;
    log_->memory_in_use_bytes += static_cast<int64_t>(rounded);
    return memory;
  }
  void Free(void* memory) override {
    if (!memory) return;
    const std::lock_guard lock(mutex_);
    const auto found = sizes_.find(memory);
    if (found == sizes_.end()) std::abort();
    std::memset(memory, kFreed, found->second);
    log_->memory_in_use_bytes -= static_cast<int64_t>(found->second);
    sizes_.erase(found);
    std::free(memory);
  }
  AllocatorStats GetStats() const override { return {}; }

 private:
  Device device_;
  AcceleratorLog* log_;
  std::mutex mutex_;
  std::map<void*, uint64_t> sizes_;  // guarded by mutex_
};

// A point in a queue; done with the error that the queue had then.
class Mark {
 public:
  void Set(Status status) {
    const std::lock_guard lock(mutex_);
    status_ = std::move(status);
    done_ = true;
    changed_.notify_all();
  }
  Status Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_; });
    return status_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  Status status_;
};

class QueueStream : public Stream {
 public:
  QueueStream(Device device, AcceleratorLog* log) : device_(device), log_(log), worker_([this] { Work(); }) {
    ++log_->streams;
  }
  ~QueueStream() override {
    Put([this]() -> Status {
      stop_ = true;
      return Status();
    });
    worker_.join();
    --log_->streams;
  }
  Device device() const override { return device_; }
  void* handle() const override { return const_cast<QueueStream*>(this); }
  Status Flush() override { return Status(); }
  Status Synchronize() override {
    const Status status = Drain();
    if (log_->device_lost) return DeviceLostError("{} is gone", device_.ToString());
    const std::lock_guard lock(mutex_);
    error_ = Status();
    return status;
  }
  Result<std::unique_ptr<Notification>> CreateNotification() override;

  // Queues are the device's: what they allocate is not the host's.
  template <typename Task>
  void Put(Task task) {
    const AllocationExemption device;
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    changed_.notify_all();
  }
  std::shared_ptr<Mark> PutMark() {
    const AllocationExemption device;
    auto mark = std::make_shared<Mark>();
    Put([this, mark]() -> Status {
      mark->Set(error());
      return Status();
    });
    return mark;
  }
  // Waits for what is there now.
  Status Drain() { return PutMark()->Wait(); }

 private:
  Status error() {
    const std::lock_guard lock(mutex_);
    return error_;
  }
  void Work() {
    const AllocationExemption device;
    while (!stop_) {
      std::function<Status()> task;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !tasks_.empty(); });
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      const Status status = task();
      const std::lock_guard lock(mutex_);
      if (error_.ok() && !status.ok()) error_ = status;
    }
  }

  Device device_;
  AcceleratorLog* log_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<Status()>> tasks_;  // guarded by mutex_
  Status error_;                               // guarded by mutex_
  bool stop_ = false;                          // of the worker
  std::thread worker_;
};

class QueueNotification : public Notification {
 public:
  explicit QueueNotification(QueueStream& stream) : stream_(stream) {}
  Status Record() override {
    mark_ = stream_.PutMark();
    return Status();
  }
  Status WaitOnStream(Stream& consumer) override {
    if (!mark_) return Status();
    static_cast<QueueStream&>(consumer).Put([mark = mark_] { return mark->Wait(); });
    return Status();
  }
  Status WaitOnHost() override { return mark_ ? mark_->Wait() : Status(); }

 private:
  QueueStream& stream_;
  std::shared_ptr<Mark> mark_;
};

Result<std::unique_ptr<Notification>> QueueStream::CreateNotification() {
  return std::unique_ptr<Notification>(std::make_unique<QueueNotification>(*this));
}

class AcceleratorTransfer : public DataTransfer {
 public:
  AcceleratorTransfer(std::vector<Device> devices, AcceleratorLog* log)
      : devices_(std::move(devices)), log_(log) {}
  bool CanCopy(const Device& source, const Device& destination) const override {
    return Knows(source) && Knows(destination) && !(source.is_host() && destination.is_host());
  }
  Status CopyAsync(const MemoryCopy& copy, Stream* stream) override {
    if (log_->device_lost) return DeviceLostError("the device is gone");
    const int64_t number = ++log_->copies;
    log_->copy_bytes += static_cast<int64_t>(copy.size_bytes);
    const auto work = [this, copy, number]() -> Status {
      if (IsNth(number, log_->failing_copy)) return InternalError("copy {} failed", number);
      if (number % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(number * 37 % 200));
      std::memcpy(copy.destination, copy.source, copy.size_bytes);
      return Status();
    };
    if (!stream) return work();
    static_cast<QueueStream*>(stream)->Put(work);
    return Status();
  }

 private:
  bool Knows(const Device& device) const {
    return device.is_host() || std::find(devices_.begin(), devices_.end(), device) != devices_.end();
  }
  std::vector<Device> devices_;
  AcceleratorLog* log_;
};

// A kernel of the CPU, on a stream, that checks whose memory it is given.
class AcceleratorKernel : public Kernel {
 public:
  AcceleratorKernel(std::unique_ptr<Kernel> kernel, const KernelDef& def, Device device, AcceleratorLog* log,
                    AcceleratorOptions::Declaration declaration)
      : kernel_(std::move(kernel)), def_(def), device_(device), log_(log), declaration_(declaration) {}

  Status Compute(KernelContext& context) const override {
    if (log_->device_lost) return DeviceLostError("{} is gone", device_.ToString());
    auto* stream = static_cast<QueueStream*>(context.stream());
    if (!stream || stream->device() != device_) return InternalError("a kernel without its stream");
    LAMINA_RETURN_IF_ERROR(stream->Drain());
    for (int i = 0; i < context.num_inputs(); ++i) {
      const Tensor* input = context.Input(i);
      const Device expected = def_.is_host_input(i) ? Device() : device_;
      if (input && input->device() != expected) {
        return InternalError("input {} is on {}, not on {}", i, input->device().ToString(),
                             expected.ToString());
      }
    }
    if (IsNth(++log_->kernels, log_->failing_kernel)) return InternalError("the kernel failed");
    return kernel_->Compute(context);
  }
  Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                      WorkspaceRequirements& requirements) const override {
    switch (declaration_) {
      case AcceleratorOptions::Declaration::kAsItIs:
        return kernel_->DeclareWorkspaceRequirements(node, requirements);
      case AcceleratorOptions::Declaration::kNothing:
        return Status();
      case AcceleratorOptions::Declaration::kUnknown:
        return UnsupportedError("the scratch is not known");
    }
    return Status();
  }
  Status DeclarePrepack(const NodeInfo& node, int input, PrepackDeclaration& declaration) const override {
    return kernel_->DeclarePrepack(node, input, declaration);
  }
  Status PrePackWeight(int input, PrepackContext& context, void* packed, void* scratch) const override {
    const Tensor* constant = context.Constant(input);
    if (!constant || constant->device() != device_) return InternalError("the weight is not on the device");
    return kernel_->PrePackWeight(input, context, packed, scratch);
  }

 private:
  std::unique_ptr<Kernel> kernel_;
  const KernelDef& def_;
  Device device_;
  AcceleratorLog* log_;
  AcceleratorOptions::Declaration declaration_;
};

class TestAccelerator : public ExecutionProvider {
 public:
  TestAccelerator(AcceleratorOptions options, int16_t first_ordinal, AcceleratorLog* log)
      : options_(std::move(options)), cpu_(CreateCpuProvider()), log_(log), transfer_({}, log) {
    std::vector<Device> ids;
    for (int i = 0; i < options_.devices; ++i) {
      DeviceDescription device;
      device.device = {DeviceKind::kGpu, static_cast<int16_t>(first_ordinal + i)};
      device.provider = options_.name;
      device.name = "test accelerator";
      device.vendor = "test";
      device.memory_bytes = uint64_t{1} << 30;
      ids.push_back(device.device);
      devices_.push_back(std::move(device));
    }
    transfer_ = AcceleratorTransfer(std::move(ids), log);
    for (const KernelCreateInfo* info : cpu_->kernel_registry().All()) AddKernel(*info);
  }

  std::string_view name() const override { return options_.name; }
  std::string_view vendor() const override { return "test"; }
  DeviceKind device_kind() const override { return DeviceKind::kGpu; }
  const KernelRegistry& kernel_registry() const override { return kernels_; }
  std::span<const DeviceDescription> devices() const override { return devices_; }
  Result<Capability> GetCapability(const CapabilityRequest& request) const override {
    LAMINA_ASSIGN_OR_RETURN(Capability capability, ExecutionProvider::GetCapability(request));
    std::erase_if(capability.nodes, [&](NodeId id) {
      const NodeInfo& node = request.info(id);
      bool lacks = false;
      for (int i = 0; i < node.num_inputs(); ++i) {
        lacks |= options_.without_types.Contains(node.input_type(i).element);
      }
      if (lacks) capability.refused.emplace_back(id, UnsupportedError("no kernel for this type"));
      return lacks;
    });
    return capability;
  }
  Result<std::unique_ptr<Allocator>> CreateAllocator(const Device& device, MemoryKind) override {
    return std::unique_ptr<Allocator>(std::make_unique<AcceleratorMemory>(device, log_));
  }
  std::optional<uint64_t> available_resource_bytes(const Device&) const override {
    return log_->free_bytes.fetch_sub(log_->vanishing_bytes);
  }
  DataTransfer* data_transfer() override { return &transfer_; }
  Result<std::unique_ptr<Stream>> CreateStream(const Device& device, StreamPurpose) override {
    return std::unique_ptr<Stream>(std::make_unique<QueueStream>(device, log_));
  }
  Status OnRunStart(const RunInfo&, std::span<Stream* const> streams) override {
    ++log_->runs;
    return static_cast<int>(streams.size()) == options_.devices ? Status()
                                                                : InternalError("streams are missing");
  }
  Status OnRunEnd(const RunInfo&, std::span<Stream* const>) override {
    --log_->runs;
    return Status();
  }

 private:
  void AddKernel(const KernelCreateInfo& info) {
    if (options_.lacks && options_.lacks(info.def)) return;
    const auto declaration =
        options_.declaration ? options_.declaration(info.def) : AcceleratorOptions::Declaration::kAsItIs;
    const auto create = [log = log_, &info,
                         declaration](const NodeInfo& node) -> Result<std::unique_ptr<Kernel>> {
      LAMINA_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, info.create(node));
      return std::unique_ptr<Kernel>(std::make_unique<AcceleratorKernel>(
          std::move(kernel), info.def, node.device().device, log, declaration));
    };
    kernels_.Add(info.def, create, info.workspace_estimate_func);
  }

  AcceleratorOptions options_;
  std::unique_ptr<ExecutionProvider> cpu_;
  AcceleratorLog* log_;
  AcceleratorTransfer transfer_;
  KernelRegistry kernels_;
  std::vector<DeviceDescription> devices_;
};

class TestAcceleratorFactory : public ProviderFactory {
 public:
  TestAcceleratorFactory(AcceleratorLog* log, AcceleratorOptions options)
      : options_(std::move(options)), log_(log) {}
  std::string_view name() const override { return options_.name; }
  std::string_view vendor() const override { return "test"; }
  DeviceKind device_kind() const override { return DeviceKind::kGpu; }
  Result<std::shared_ptr<ExecutionProvider>> Create(const ProviderConfig& config) override {
    if (!config.options.empty()) {
      return InvalidArgumentError("ep.{}.{}: there is no such option", options_.name,
                                  config.options.begin()->first);
    }
    return std::shared_ptr<ExecutionProvider>(
        std::make_shared<TestAccelerator>(options_, config.first_ordinal, log_));
  }

 private:
  AcceleratorOptions options_;
  AcceleratorLog* log_;
};

}  // namespace

std::shared_ptr<ProviderFactory> MakeTestAccelerator(AcceleratorLog* log, AcceleratorOptions options) {
  return std::make_shared<TestAcceleratorFactory>(log, std::move(options));
}

}  // namespace lamina::testing
