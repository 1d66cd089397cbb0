#include "base/host_pages.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace lamina {
namespace {

constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;
constexpr uint64_t kMostBytes = uint64_t{1} << 46;

}  // namespace

Result<HostPages> HostPages::Allocate(uint64_t size_bytes) {
  if (size_bytes > kMostBytes) return ResourceExhaustedError("{} bytes of host memory", size_bytes);
  const uint64_t wanted_bytes = (size_bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  // One huge page more, of which the parts before and after an aligned stretch are given back.
  const uint64_t mapped_bytes = wanted_bytes + kHugePageBytes;
  void* const mapped =
      mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) {
    return ResourceExhaustedError("{} bytes of host memory: {}", size_bytes, std::strerror(errno));
  }
  auto* const begin = static_cast<std::byte*>(mapped);
  const uint64_t before =
      (kHugePageBytes - reinterpret_cast<uintptr_t>(begin) % kHugePageBytes) % kHugePageBytes;
  if (before > 0) munmap(begin, before);
  if (before < kHugePageBytes) munmap(begin + before + wanted_bytes, kHugePageBytes - before);
  HostPages pages;
  pages.bytes_ = {begin + before, wanted_bytes};

  madvise(pages.bytes_.data(), wanted_bytes, MADV_HUGEPAGE);
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, Linux 5.14
  while (madvise(pages.bytes_.data(), wanted_bytes, kPopulateWrite) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    if (errno == EINVAL) break;  // an older kernel: pages come at the first touch
    return ResourceExhaustedError("{} bytes of host memory: {}", size_bytes, std::strerror(errno));
  }
  return pages;
}

HostPages::~HostPages() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

HostPages::HostPages(HostPages&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

HostPages& HostPages::operator=(HostPages&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace lamina
