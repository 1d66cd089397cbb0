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
    devices_.push_back(std::move(cpu));
  }

  std::string_view name() const override { return "cpu"; }
  const KernelRegistry& kernels() const override { return kernels_; }
  std::span<const DeviceDescription> devices() const override { return devices_; }
  Allocator& allocator(const Device&, MemoryKind) override { return allocator_; }

 private:
  KernelRegistry kernels_;
  std::vector<DeviceDescription> devices_;
  HostAllocator allocator_;
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

}  // namespace lamina
