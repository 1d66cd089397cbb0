// A provider of devices for tests of sessions over several devices: the CPU's kernels, memory of its own that
// kernels and copies check, copies on threads of their own, counters and failures on demand.
//
// Kernels run on the calling thread, after everything that their stream waits for. Copies are delayed a
// little, differently each time, so that a missing wait shows.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "provider/provider.h"

namespace lamina::testing {

// What happens on all devices of one factory. Thread-safe.
struct AcceleratorLog {
  std::atomic<int64_t> copies{0};
  std::atomic<int64_t> copy_bytes{0};
  std::atomic<int64_t> kernels{0};
  std::atomic<int64_t> allocations{0};
  std::atomic<int64_t> memory_in_use_bytes{0};
  std::atomic<int64_t> streams{0};  // alive
  std::atomic<int64_t> runs{0};     // started and not ended

  // Counting from 1 since the last ClearCounts, the one that fails; 0: none.
  std::atomic<int64_t> failing_copy{0};
  std::atomic<int64_t> failing_kernel{0};
  std::atomic<int64_t> failing_allocation{0};
  std::atomic<bool> device_lost{false};

  // What a device says is free, and how much less at each later question: others take it.
  std::atomic<uint64_t> free_bytes{uint64_t{1} << 30};
  std::atomic<uint64_t> vanishing_bytes{0};

  void ClearCounts() {
    copies = 0;
    copy_bytes = 0;
    kernels = 0;
    allocations = 0;
  }
};

struct AcceleratorOptions {
  std::string name = "test";
  int devices = 2;
  // Of the CPU's kernels, those that the provider lacks.
  std::function<bool(const KernelDef&)> lacks;
  // It takes no nodes with inputs of these types.
  TypeSet without_types;
  // Whether a kernel declares no scratch, or says that it cannot tell; null: as it is.
  enum class Declaration : uint8_t { kAsItIs, kNothing, kUnknown };
  std::function<Declaration(const KernelDef&)> declaration;
};

// Its provider takes no options. `log` must outlive the factory and what it makes.
std::shared_ptr<ProviderFactory> MakeTestAccelerator(AcceleratorLog* log, AcceleratorOptions options = {});

}  // namespace lamina::testing
