#include "providers/cpu/cpu_provider.h"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "base/os.h"
#include "providers/cpu/cpu_kernels.h"

namespace lamina {
namespace {

constexpr uint64_t kAlignment = 256;

class CpuProvider : public ExecutionProvider {
 public:
  CpuProvider() {
    RegisterCpuKernels(kernels_);
    DeviceDescription cpu;
    cpu.provider = "cpu";
    cpu.name = CpuModel();
    cpu.vendor = "cpu";
    cpu.memory_bytes = GetHostMemory().total_bytes;
    devices_.push_back(std::move(cpu));
  }

  std::string_view name() const override { return "cpu"; }
  std::string_view vendor() const override { return "cpu"; }
  DeviceKind device_kind() const override { return DeviceKind::kCpu; }
  const KernelRegistry& kernel_registry() const override { return kernels_; }
  std::span<const DeviceDescription> devices() const override { return devices_; }
  std::optional<uint64_t> available_resource_bytes(const Device&) const override {
    return GetHostMemory().available_bytes;
  }
  Result<std::unique_ptr<Allocator>> CreateAllocator(const Device&, MemoryKind) override {
    return std::unique_ptr<Allocator>(std::make_unique<HostAllocator>());
  }

 private:
  KernelRegistry kernels_;
  std::vector<DeviceDescription> devices_;
};

class CpuProviderFactory : public ProviderFactory {
 public:
  explicit CpuProviderFactory(std::shared_ptr<ExecutionProvider> provider) : provider_(std::move(provider)) {}
  std::string_view name() const override { return provider_->name(); }
  std::string_view vendor() const override { return provider_->vendor(); }
  DeviceKind device_kind() const override { return DeviceKind::kCpu; }
  Result<std::shared_ptr<ExecutionProvider>> Create(const ProviderConfig& config) override {
    if (config.options.empty()) return provider_;
    return InvalidArgumentError("ep.cpu.{}: the CPU provider has no options", config.options.begin()->first);
  }

 private:
  std::shared_ptr<ExecutionProvider> provider_;
};

}  // namespace

struct HostAllocator::Counters {
  std::mutex mutex;
  AllocatorStats stats;  // guarded by mutex
};

HostAllocator::HostAllocator() : counters_(std::make_unique<Counters>()) {}
HostAllocator::~HostAllocator() = default;

Result<void*> HostAllocator::Alloc(uint64_t bytes) {
  const uint64_t rounded_bytes =
      std::max<uint64_t>(bytes + kAlignment - 1, kAlignment) / kAlignment * kAlignment;
  void* memory = rounded_bytes < bytes ? nullptr : std::aligned_alloc(kAlignment, rounded_bytes);
  if (!memory) {
    return Status::OutOfMemory(fmt::format("cpu: cannot allocate {} bytes of host memory", bytes),
                               MemoryShortage{"cpu", bytes, 0, {}});
  }
  const uint64_t usable_bytes = malloc_usable_size(memory);
  const std::lock_guard lock(counters_->mutex);
  AllocatorStats& stats = counters_->stats;
  ++stats.num_allocs;
  stats.in_use_bytes += usable_bytes;
  stats.total_allocated_bytes = stats.in_use_bytes;
  stats.max_in_use_bytes = std::max(stats.max_in_use_bytes, stats.in_use_bytes);
  stats.max_alloc_size_bytes = std::max(stats.max_alloc_size_bytes, bytes);
  return memory;
}

void HostAllocator::Free(void* memory) {
  if (!memory) return;
  const uint64_t usable_bytes = malloc_usable_size(memory);
  std::free(memory);
  const std::lock_guard lock(counters_->mutex);
  counters_->stats.in_use_bytes -= usable_bytes;
  counters_->stats.total_allocated_bytes = counters_->stats.in_use_bytes;
}

AllocatorStats HostAllocator::GetStats() const {
  const std::lock_guard lock(counters_->mutex);
  return counters_->stats;
}

std::unique_ptr<ExecutionProvider> CreateCpuProvider() { return std::make_unique<CpuProvider>(); }

std::unique_ptr<ProviderFactory> CreateCpuProviderFactory(std::shared_ptr<ExecutionProvider> provider) {
  return std::make_unique<CpuProviderFactory>(std::move(provider));
}

}  // namespace lamina
