#include "base/host_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/os.h"

namespace lamina {
namespace {

constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;

// From here on several threads bring pages into memory: the kernel clears them, a few GB/s each.
constexpr uint64_t kBytesPerThread = uint64_t{8} << 20;
constexpr uint64_t kMostThreads = 16;

// The errno of a failure, or 0.
int PopulatePart(std::span<std::byte> part) {
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, Linux 5.14
  while (madvise(part.data(), part.size(), kPopulateWrite) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    return errno == EINVAL ? 0 : errno;  // an older kernel: pages come at the first touch
  }
  return 0;
}

Status Populate(std::span<std::byte> pages) {
  const uint64_t threads = std::clamp<uint64_t>(pages.size() / kBytesPerThread, 1,
                                                std::min<uint64_t>(kMostThreads, AvailableCores()));
  const uint64_t huge_pages = pages.size() / kHugePageBytes;
  const uint64_t part_bytes = (huge_pages + threads - 1) / threads * kHugePageBytes;
  std::vector<std::future<int>> parts;
  for (uint64_t begin = 0; begin < pages.size(); begin += part_bytes) {
    const auto part = pages.subspan(begin, std::min(part_bytes, pages.size() - begin));
    const bool is_last = begin + part_bytes >= pages.size();
    try {
      parts.push_back(std::async(is_last ? std::launch::deferred : std::launch::async, PopulatePart, part));
    } catch (const std::system_error&) {  // no thread for it
      parts.push_back(std::async(std::launch::deferred, PopulatePart, part));
    }
  }
  int first_error = 0;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {  // the last runs on this thread
    const int error = part->get();
    if (first_error == 0) first_error = error;
  }
  if (first_error == 0) return Status();
  return ResourceExhaustedError("{} bytes of host memory: {}", pages.size(), std::strerror(first_error));
}

}  // namespace

Result<HostPages> HostPages::Allocate(uint64_t size_bytes) {
  // More than there is would be granted and end the process when it is touched.
  const uint64_t available_bytes = GetHostMemory().available_bytes;
  if (size_bytes > available_bytes) {
    return ResourceExhaustedError("{} bytes of host memory: {} are available", size_bytes, available_bytes);
  }
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
  LAMINA_RETURN_IF_ERROR(Populate(pages.bytes_));
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
