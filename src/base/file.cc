#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/open_beneath.h"
#include "base/os.h"
#include "base/unique_fd.h"

namespace lamina {
namespace {

FileState StateOf(const struct stat& info) {
  return {static_cast<uint64_t>(info.st_size),
          static_cast<int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec};
}

// Reads until the first `needed_bytes` of `into` are there; pread may give less than it is asked for. A
// partial read is continued from a multiple of `step_bytes`: direct reads cannot start at an unaligned
// offset. UNSUPPORTED where the system takes no such read (EINVAL).
Status ReadFully(int descriptor, const std::string& path, uint64_t offset, std::span<std::byte> into,
                 uint64_t needed_bytes, uint64_t step_bytes) {
  uint64_t done = 0;
  while (done < needed_bytes) {
    constexpr size_t kMostBytesPerRead = size_t{1} << 30;
    const ssize_t got = pread(descriptor, into.data() + done, std::min(into.size() - done, kMostBytesPerRead),
                              static_cast<off_t>(offset + done));
    if (got < 0) {
      if (errno == EINTR) continue;
      const StatusCode code = errno == EINVAL ? StatusCode::kUnsupported : StatusCode::kIo;
      return Status(code, fmt::format("{}: cannot read {} bytes at offset {}: {}", path, needed_bytes - done,
                                      offset + done, std::strerror(errno)));
    }
    const uint64_t usable = done + static_cast<uint64_t>(got) >= needed_bytes
                                ? static_cast<uint64_t>(got)
                                : static_cast<uint64_t>(got) / step_bytes * step_bytes;
    if (usable == 0) {
      return IoError("{}: ends at offset {}, {} bytes were expected after it; the file was cut short", path,
                     offset + done + static_cast<uint64_t>(got),
                     needed_bytes - done - static_cast<uint64_t>(got));
    }
    done += usable;
  }
  return Status();
}

class SystemDirectReader : public DirectReader {
 public:
  SystemDirectReader(UniqueFd descriptor, std::string path)
      : descriptor_(std::move(descriptor)), path_(std::move(path)) {}

  // Every block device and file system in use takes multiples of a page.
  uint64_t alignment_bytes() const override { return static_cast<uint64_t>(PageSizeBytes()); }

  Status ReadAt(uint64_t offset, std::span<std::byte> into, uint64_t needed_bytes) const override {
    return ReadFully(descriptor_.get(), path_, offset, into, needed_bytes, alignment_bytes());
  }

 private:
  UniqueFd descriptor_;
  std::string path_;
};

class SystemFile : public File {
 public:
  SystemFile(UniqueFd descriptor, std::string path, const struct stat& info)
      : descriptor_(std::move(descriptor)),
        path_(std::move(path)),
        size_bytes_(static_cast<uint64_t>(info.st_size)),
        identity_{info.st_dev, info.st_ino} {}

  const std::string& path() const override { return path_; }
  uint64_t size_bytes() const override { return size_bytes_; }
  FileIdentity identity() const override { return identity_; }

  Result<FileState> State() const override {
    struct stat info {};
    if (fstat(descriptor_.get(), &info) != 0) return IoError("{}: {}", path_, std::strerror(errno));
    return StateOf(info);
  }

  Result<std::unique_ptr<DirectReader>> OpenDirect() const override {
    // Through /proc it is this very file, whatever its name leads to by now.
    UniqueFd direct(open(fmt::format("/proc/self/fd/{}", descriptor_.get()).c_str(),
                         O_RDONLY | O_DIRECT | O_CLOEXEC | O_NOCTTY));
    if (!direct.valid()) {
      return UnsupportedError("{}: no direct reads: {}", path_, std::strerror(errno));
    }
    return std::unique_ptr<DirectReader>(std::make_unique<SystemDirectReader>(std::move(direct), path_));
  }

  Status DropCachedPages() const override {
    // Pages that wait to be written cannot be dropped.
    if (fdatasync(descriptor_.get()) != 0) return IoError("{}: {}", path_, std::strerror(errno));
    const int error = posix_fadvise(descriptor_.get(), 0, 0, POSIX_FADV_DONTNEED);
    return error == 0 ? Status() : IoError("{}: cannot drop cached pages: {}", path_, std::strerror(error));
  }

  Status ReadAt(uint64_t offset, std::span<std::byte> into) const override {
    LAMINA_RETURN_IF_ERROR(CheckRange(offset, into.size()));
    return ReadFully(descriptor_.get(), path_, offset, into, into.size(), /*step_bytes=*/1);
  }

  Result<MappedRegion> Map(uint64_t offset, uint64_t length) const override {
    LAMINA_RETURN_IF_ERROR(CheckRange(offset, length));
    if (length == 0) return MappedRegion();
    const uint64_t before = offset % static_cast<uint64_t>(PageSizeBytes());
    const uint64_t mapped_bytes = length + before;
    void* base = mmap(nullptr, mapped_bytes, PROT_READ, MAP_SHARED, descriptor_.get(),
                      static_cast<off_t>(offset - before));
    if (base == MAP_FAILED) {
      return IoError("{}: cannot map {} bytes at offset {}: {}", path_, length, offset, std::strerror(errno));
    }
    std::shared_ptr<const void> owner(
        base, [mapped_bytes](const void* mapping) { munmap(const_cast<void*>(mapping), mapped_bytes); });
    const auto* bytes = static_cast<const std::byte*>(base) + before;
    return MappedRegion({bytes, length}, std::move(owner), /*is_file_mapping=*/true);
  }

 private:
  Status CheckRange(uint64_t offset, uint64_t length) const {
    if (RangeFits(offset, length, size_bytes_)) return Status();
    return IoError("{}: {} bytes at offset {} leave the file of {} bytes", path_, length, offset,
                   size_bytes_);
  }

  UniqueFd descriptor_;
  std::string path_;
  uint64_t size_bytes_;
  FileIdentity identity_;
};

// The kind of thing that is not a regular file, for messages.
const char* KindName(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

Result<struct stat> StatRegular(const UniqueFd& descriptor, const std::string& path, StatusCode wrong_kind) {
  struct stat info {};
  if (fstat(descriptor.get(), &info) != 0) return IoError("{}: {}", path, std::strerror(errno));
  if (!S_ISREG(info.st_mode)) {
    return Status(wrong_kind, fmt::format("{}: expected a file, found {}", path, KindName(info.st_mode)));
  }
  return info;
}

class SystemFileSystem : public FileSystem {
 public:
  Result<std::shared_ptr<const File>> Open(const std::string& path) const override {
    // Without O_NONBLOCK the opening of a pipe waits for its writer.
    UniqueFd descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!descriptor.valid()) {
      if (errno == ENOENT || errno == ENOTDIR) return NotFoundError("{}: no such file", path);
      return IoError("{}: cannot open: {}", path, std::strerror(errno));
    }
    LAMINA_ASSIGN_OR_RETURN(const struct stat info,
                            StatRegular(descriptor, path, StatusCode::kInvalidArgument));
    return std::shared_ptr<const File>(std::make_shared<SystemFile>(std::move(descriptor), path, info));
  }

  Result<OpenedBeneath> OpenBeneath(const Beneath& where, const std::string& location) const override {
    LAMINA_ASSIGN_OR_RETURN(UniqueFd descriptor, OpenDescriptorBeneath(where, location));
    const std::string path = where.folder.empty() ? location : where.folder + "/" + location;
    LAMINA_ASSIGN_OR_RETURN(const struct stat info, StatRegular(descriptor, path, StatusCode::kInvalidModel));
    if (where.strict && info.st_nlink > 1) {
      return InvalidModelError(
          "{}: {} hard links lead to this file, expected 1 (session.external_data_strict)", path,
          info.st_nlink);
    }
    return OpenedBeneath{std::make_shared<SystemFile>(std::move(descriptor), path, info), info.st_nlink > 1};
  }
};

}  // namespace

namespace {

// The whole pages that bytes of a mapping lie in.
struct PageSpan {
  void* begin = nullptr;
  size_t bytes = 0;
};

PageSpan PagesOf(std::span<const std::byte> bytes) {
  const auto page = static_cast<uintptr_t>(PageSizeBytes());
  const auto first = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t begin = first / page * page;
  const uintptr_t end = (first + bytes.size() + page - 1) / page * page;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): page arithmetic on an address of a mapping
  return {reinterpret_cast<void*>(begin), end - begin};
}

}  // namespace

Result<std::unique_ptr<DirectReader>> File::OpenDirect() const {
  return UnsupportedError("{}: no direct reads", path());
}

Status MappedRegion::Populate() const {
  if (!is_file_mapping_ || bytes_.empty()) return Status();
  const PageSpan pages = PagesOf(bytes_);
  constexpr int kPopulateRead = 22;  // MADV_POPULATE_READ, Linux 5.14; older C libraries do not name it
  while (madvise(pages.begin, pages.bytes, kPopulateRead) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    return IoError("cannot bring {} mapped bytes into memory: {}; the file was cut short or cannot be read",
                   bytes_.size(), std::strerror(errno));
  }
  return Status();
}

Result<uint64_t> MappedRegion::ResidentBytes() const {
  if (!is_file_mapping_ || bytes_.empty()) return bytes_.size();
  const PageSpan pages = PagesOf(bytes_);
  const auto page = static_cast<size_t>(PageSizeBytes());
  std::vector<unsigned char> resident(pages.bytes / page);
  if (mincore(pages.begin, pages.bytes, resident.data()) != 0) {
    return IoError("cannot ask which of {} mapped bytes are in memory: {}", bytes_.size(),
                   std::strerror(errno));
  }
  const auto count =
      std::count_if(resident.begin(), resident.end(), [](unsigned char flags) { return flags & 1; });
  return std::min<uint64_t>(bytes_.size(), static_cast<uint64_t>(count) * page);
}

void MappedRegion::Advise(Access access) const {
  if (!is_file_mapping_ || bytes_.empty()) return;
  const auto page = static_cast<uintptr_t>(PageSizeBytes());
  const auto first = reinterpret_cast<uintptr_t>(bytes_.data());
  uintptr_t begin = first / page * page;
  uintptr_t end = first + bytes_.size();
  int advice = MADV_NORMAL;
  switch (access) {
    case Access::kNormal:
      break;
    case Access::kSequential:
      advice = MADV_SEQUENTIAL;
      break;
    case Access::kRandom:
      advice = MADV_RANDOM;
      break;
    case Access::kWillNeed:
      advice = MADV_WILLNEED;
      break;
    case Access::kDontNeed:  // only pages that no neighbour shares
      advice = MADV_DONTNEED;
      begin = (first + page - 1) / page * page;
      end = end / page * page;
      if (begin >= end) return;
      break;
  }
  // NOLINTNEXTLINE(performance-no-int-to-ptr): page arithmetic on an address of this mapping
  madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

const FileSystem& SystemFiles() {
  static const auto* const files = new SystemFileSystem;
  return *files;
}

}  // namespace lamina
