// The CPU provider: every operator Lamina knows, on host memory.
#pragma once

#include <memory>

#include "provider/provider.h"

namespace lamina {

std::unique_ptr<ExecutionProvider> CreateCpuProvider();

// Gives out the one `provider`. It takes no options.
std::unique_ptr<ProviderFactory> CreateCpuProviderFactory(std::shared_ptr<ExecutionProvider> provider);

// Host memory aligned to 256 bytes.
class HostAllocator : public Allocator {
 public:
  HostAllocator();
  ~HostAllocator() override;
  Device device() const override { return {}; }
  Result<void*> Alloc(uint64_t bytes) override;
  void Free(void* memory) override;
  AllocatorStats GetStats() const override;

 private:
  struct Counters;
  std::unique_ptr<Counters> counters_;
};

}  // namespace lamina
