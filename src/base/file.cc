#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/open_beneath.h"
#include "base/os.h"
#include "base/unique_fd.h"

namespace lamina {
namespace {

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
  int descriptor() const override { return descriptor_.get(); }

  Status ReadAt(uint64_t offset, std::span<std::byte> into) const override {
    LAMINA_RETURN_IF_ERROR(CheckRange(offset, into.size()));
    while (!into.empty()) {
      constexpr size_t kMostBytesPerRead = size_t{1} << 30;
      const ssize_t got = pread(descriptor_.get(), into.data(), std::min(into.size(), kMostBytesPerRead),
                                static_cast<off_t>(offset));
      if (got < 0) {
        if (errno == EINTR) continue;
        return IoError("{}: cannot read {} bytes at offset {}: {}", path_, into.size(), offset,
                       std::strerror(errno));
      }
      if (got == 0) {
        return IoError("{}: ends at offset {}, {} bytes were expected after it; the file was cut short",
                       path_, offset, into.size());
      }
      into = into.subspan(static_cast<size_t>(got));
      offset += static_cast<uint64_t>(got);
    }
    return Status();
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
