// A vector for tables of some megabytes that are read at random: in large pages, where the system has them,
// which are quicker to make and spare most searches of page tables.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <vector>

namespace lamina::text {

template <typename T>
class LargePageAllocator {
 public:
  using value_type = T;

  LargePageAllocator() = default;
  template <typename U>
  explicit LargePageAllocator(const LargePageAllocator<U>& /*other*/) {}

  T* allocate(size_t count) {
    if (count > SIZE_MAX / 2 / sizeof(T)) throw std::bad_array_new_length();
    const size_t size_bytes = count * sizeof(T);
    if (size_bytes < kPageBytes) return static_cast<T*>(::operator new(size_bytes));
    void* memory = ::operator new(size_bytes, std::align_val_t(kPageBytes));
    madvise(memory, size_bytes, MADV_HUGEPAGE);  // where it fails, the pages are small
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t count) {
    if (count * sizeof(T) < kPageBytes) {
      ::operator delete(memory);
    } else {
      ::operator delete(memory, std::align_val_t(kPageBytes));
    }
  }
  bool operator==(const LargePageAllocator& /*other*/) const { return true; }

 private:
  static constexpr size_t kPageBytes = size_t{2} << 20;
};

template <typename T>
using LargeVector = std::vector<T, LargePageAllocator<T>>;

}  // namespace lamina::text
