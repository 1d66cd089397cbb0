#include "providers/cuda/cuda_provider.h"

#include <mutex>
#include <utility>
#include <vector>

#include "base/error.h"
#include "provider/memory_meter.h"
#include "providers/cuda/cuda_device.h"
#include "providers/cuda/cuda_host_half.h"
#include "providers/cuda/cuda_library.h"
#include "providers/cuda/cuda_memory.h"
#include "providers/cuda/cuda_stream.h"

namespace lamina {
namespace cuda {
namespace {

class CudaProvider : public ExecutionProvider, public MemoryMeter {
 public:
  static Result<std::shared_ptr<ExecutionProvider>> Create(const std::shared_ptr<const CudaLibrary>& library,
                                                           const OptionValues& options,
                                                           int16_t first_ordinal) {
    std::shared_ptr<CudaProvider> provider(new CudaProvider);
    provider->memory_options_ = {options.Bytes("gpu_mem_limit"), options.Bool("arena.use_cuda_mempool"),
                                 options.Bytes("arena.cuda_mempool_release_threshold")};
    RegisterCudaKernels(provider->kernels_, {library, first_ordinal});
    bool all_register_read_only = true;
    for (int i = 0; i < library->device_count(); ++i) {
      DeviceFacts facts;
      LAMINA_RETURN_IF_ERROR(
          library->StatusOf(library->api().device_facts(i, &facts), i, "asking for its properties"));
      all_register_read_only &= facts.can_register_read_only != 0;
      provider->AddDevice(library, i, facts, static_cast<int16_t>(first_ordinal + i));
    }
    provider->transfer_ = std::make_unique<CudaDataTransfer>(provider->devices_);
    provider->registration_ =
        std::make_unique<CudaHostRegistration>(provider->devices_, all_register_read_only);
    return std::shared_ptr<ExecutionProvider>(std::move(provider));
  }

  std::string_view name() const override { return kProviderName; }
  std::string_view vendor() const override { return kProviderVendor; }
  DeviceKind device_kind() const override { return DeviceKind::kGpu; }
  const KernelRegistry& kernel_registry() const override { return kernels_; }
  Result<Capability> GetCapability(const CapabilityRequest& request) const override {
    return CudaCapability(kernels_, request);
  }
  std::span<const DeviceDescription> devices() const override { return descriptions_; }

  std::optional<uint64_t> available_resource_bytes(const Device& device) const override {
    Result<CudaDevice*> found = Find(device);
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    if (!found.ok() ||
        !(*found)->Call(&DeviceApi::memory_info, "asking for free memory", &free_bytes, &total_bytes).ok()) {
      return std::nullopt;
    }
    return free_bytes;
  }

  std::optional<double> MeasureReadBandwidth(const Device& device) override {
    Result<CudaDevice*> found = Find(device);
    double bytes_per_s = 0;
    if (!found.ok() ||
        !(*found)->Call(&DeviceApi::measure_bandwidth, "measuring its memory", &bytes_per_s).ok()) {
      return std::nullopt;
    }
    return bytes_per_s;
  }

  Result<std::unique_ptr<Allocator>> CreateAllocator(const Device& device, MemoryKind kind) override {
    LAMINA_ASSIGN_OR_RETURN(CudaDevice* const found, Find(device));
    // Who makes an allocator will allocate: until then there is something else to do.
    found->CreateContextInBackground();
    if (kind == MemoryKind::kPinned) return CreatePinnedAllocator(*found);
    const auto index = static_cast<size_t>(found->ordinal());
    return CreateDeviceAllocator(*found, accounts_[index], memory_options_);
  }

  DataTransfer* data_transfer() override { return transfer_.get(); }
  HostRegistration* host_registration() override { return registration_.get(); }

  Result<std::unique_ptr<Stream>> CreateStream(const Device& device, StreamPurpose) override {
    LAMINA_ASSIGN_OR_RETURN(CudaDevice* const found, Find(device));
    return CreateCudaStream(*found);
  }

 private:
  CudaProvider() = default;

  void AddDevice(const std::shared_ptr<const CudaLibrary>& library, int index, const DeviceFacts& facts,
                 int16_t ordinal) {
    DeviceDescription description;
    description.device = Device{DeviceKind::kGpu, ordinal};
    description.provider = kProviderName;
    description.vendor = kProviderVendor;
    description.name = facts.name;
    description.memory_bytes = facts.memory_bytes;
    description.granularity_bytes = facts.granularity_bytes;
    description.memory_bandwidth_bytes_per_s = facts.memory_bandwidth_bytes_per_s;
    description.compute_capability_major = facts.compute_capability_major;
    description.compute_capability_minor = facts.compute_capability_minor;
    description.multiprocessors = facts.multiprocessors;
    devices_.push_back(std::make_unique<CudaDevice>(library, index, description.device));
    accounts_.push_back(
        std::make_shared<DeviceMemoryAccount>(description.device, memory_options_.limit_bytes));
    descriptions_.push_back(std::move(description));
  }

  Result<CudaDevice*> Find(const Device& device) const {
    for (const auto& candidate : devices_) {
      if (candidate->device() == device) return candidate.get();
    }
    return NotFoundError("provider cuda: there is no device {}", device.ToString());
  }

  KernelRegistry kernels_;
  DeviceMemoryOptions memory_options_;
  std::vector<std::unique_ptr<CudaDevice>> devices_;  // in the driver's order
  std::vector<std::shared_ptr<DeviceMemoryAccount>> accounts_;
  std::vector<DeviceDescription> descriptions_;
  std::unique_ptr<CudaDataTransfer> transfer_;
  std::unique_ptr<CudaHostRegistration> registration_;
};

class CudaProviderFactory : public ProviderFactory {
 public:
  std::string_view name() const override { return kProviderName; }
  std::string_view vendor() const override { return kProviderVendor; }
  DeviceKind device_kind() const override { return DeviceKind::kGpu; }

  Result<std::shared_ptr<ExecutionProvider>> Create(const ProviderConfig& config) override {
    OptionValues options(CudaProviderOptionTable());
    for (const auto& [key, value] : config.options) {
      const Status status = options.Set(key, value);
      if (!status.ok()) return status.WithContext("ep.cuda");
    }
    LAMINA_ASSIGN_OR_RETURN(const std::shared_ptr<const CudaLibrary> library, Library());
    return CudaProvider::Create(library, options, config.first_ordinal);
  }

 private:
  // Asked once: neither libraries nor GPUs come and go while a process runs.
  Result<std::shared_ptr<const CudaLibrary>> Library() {
    const std::lock_guard lock(mutex_);
    if (!library_) library_.emplace(CudaLibrary::Open());
    return *library_;
  }

  std::mutex mutex_;
  std::optional<Result<std::shared_ptr<const CudaLibrary>>> library_;  // guarded by mutex_
};

}  // namespace
}  // namespace cuda

std::shared_ptr<ProviderFactory> CreateCudaProviderFactory() {
  return std::make_shared<cuda::CudaProviderFactory>();
}

const OptionTable& CudaProviderOptionTable() {
  static const OptionTable table(
      {{.key = "external_data_loader_reading_threads",
        .type = OptionType::kInt,
        .default_text = "",
        .unit = "threads",
        .range = {0, 64},
        .meaning = "Threads that read weights for the GPU; 0 leaves loading to the generic way, which copies "
                   "from mapped files, 1 reads on the loading thread",
        .when_unset = "as many as the cores, 4 with the strategies pinned and direct"},
       {.key = "external_data_loader_strategy",
        .type = OptionType::kEnum,
        .default_text = "auto",
        .choices = {"auto", "pinned", "mapped", "direct"},
        .meaning = "How weights come to the GPU: through two pinned buffers, from the registered mapping of "
                   "the file, by reads that bypass the page cache, or as it is fastest"},
       {.key = "gpu_mem_limit",
        .type = OptionType::kBytes,
        .default_text = "0",
        .meaning = "Memory that is allocated on each GPU at most; 0 is no limit"},
       {.key = "arena.use_cuda_mempool",
        .type = OptionType::kBool,
        .default_text = "0",
        .meaning = "Allocate from a memory pool of the driver"},
       {.key = "arena.cuda_mempool_release_threshold",
        .type = OptionType::kBytes,
        .default_text = "0",
        .meaning = "Freed memory that the driver's pool keeps for later"}});
  return table;
}

}  // namespace lamina
