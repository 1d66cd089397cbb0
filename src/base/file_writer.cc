#include "base/file_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"

namespace lamina {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

}  // namespace

Result<FileWriter> FileWriter::Create(const std::string& path) {
  struct stat info {};
  const bool exists = stat(path.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) return InvalidArgumentError("{}: cannot write: it is a folder", path);
  if (exists && !S_ISREG(info.st_mode)) {
    UniqueFd descriptor(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!descriptor.valid()) return IoError("{}: cannot write: {}", path, std::strerror(errno));
    return FileWriter(std::move(descriptor), path, "");
  }
  std::error_code error;
  const std::string target = exists ? std::filesystem::canonical(path, error).string() : path;
  if (error) return IoError("{}: cannot write: {}", path, error.message());
  for (int attempt = 0;; ++attempt) {
    const std::string temporary = fmt::format("{}.{}-{}.part", target, getpid(), attempt);
    UniqueFd descriptor(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (descriptor.valid()) {
      if (exists) fchmod(descriptor.get(), info.st_mode & 07777);
      return FileWriter(std::move(descriptor), target, temporary);
    }
    if (errno != EEXIST || attempt == 1000)
      return IoError("{}: cannot write: {}", path, std::strerror(errno));
  }
}

FileWriter::FileWriter(FileWriter&& other) noexcept
    : descriptor_(std::move(other.descriptor_)),
      path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, "")),
      buffer_(std::move(other.buffer_)),
      bytes_written_(other.bytes_written_) {}

FileWriter::~FileWriter() {
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

Status FileWriter::Append(std::span<const std::byte> bytes) {
  bytes_written_ += bytes.size();
  if (bytes.size() >= kBufferBytes) {
    LAMINA_RETURN_IF_ERROR(FlushBuffer());
    return WriteAll(bytes);
  }
  if (buffer_.size() + bytes.size() > kBufferBytes) LAMINA_RETURN_IF_ERROR(FlushBuffer());
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  return Status();
}

Status FileWriter::AlignTo(uint64_t alignment) {
  const uint64_t missing = (alignment - bytes_written_ % alignment) % alignment;
  return Append(std::string(missing, '\0'));
}

Status FileWriter::Commit() {
  LAMINA_RETURN_IF_ERROR(FlushBuffer());
  if (temporary_.empty()) return Status();
  if (fsync(descriptor_.get()) != 0) return Failed("cannot write");
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0)
    return Failed("cannot move the written file into place");
  temporary_.clear();
  return Status();
}

Status FileWriter::WriteAll(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor_.get(), bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return Failed("cannot write");
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return Status();
}

Status FileWriter::FlushBuffer() {
  LAMINA_RETURN_IF_ERROR(WriteAll(buffer_));
  buffer_.clear();
  return Status();
}

Status FileWriter::Failed(const char* what) const {
  return IoError("{}: {}: {}", path_, what, std::strerror(errno));
}

}  // namespace lamina
