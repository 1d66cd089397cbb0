#include "support/allocation_counter.h"

#include <atomic>
#include <cerrno>
#include <cstdlib>

namespace lamina::testing {
namespace {

std::atomic<bool> counting{false};
std::atomic<int64_t> allocations{0};
thread_local int exemptions __attribute__((tls_model("initial-exec"))) = 0;

}  // namespace

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
bool CanCountAllocations() { return false; }
#else
bool CanCountAllocations() { return true; }

namespace {

void CountAllocation() {
  if (counting.load(std::memory_order_relaxed) && exemptions == 0) {
    allocations.fetch_add(1, std::memory_order_relaxed);
  }
}

}  // namespace
#endif

AllocationCounter::AllocationCounter() {
  allocations.store(0);
  counting.store(true);
}
AllocationCounter::~AllocationCounter() { counting.store(false); }
int64_t AllocationCounter::count() const { return allocations.load(); }

AllocationExemption::AllocationExemption() { ++exemptions; }
AllocationExemption::~AllocationExemption() { --exemptions; }

}  // namespace lamina::testing

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// glibc's allocator under its internal names; the definitions below take the place of the public ones.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  lamina::testing::CountAllocation();
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  lamina::testing::CountAllocation();
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes) {
  lamina::testing::CountAllocation();
  return __libc_realloc(memory, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  lamina::testing::CountAllocation();
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  void* allocated = memalign(alignment, bytes);
  if (!allocated) return ENOMEM;
  *memory = allocated;
  return 0;
}
}
#endif
