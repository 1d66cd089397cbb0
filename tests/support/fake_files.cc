#include "support/fake_files.h"

#include <cstring>
#include <sstream>
#include <utility>

#include "base/error.h"

namespace lamina::testing {
namespace {

class MemoryFile : public File {
 public:
  MemoryFile(std::string path, std::string content, uint64_t inode)
      : path_(std::move(path)),
        content_(std::make_shared<const std::string>(std::move(content))),
        inode_(inode) {}

  const std::string& path() const override { return path_; }
  uint64_t size_bytes() const override { return content_->size(); }
  FileIdentity identity() const override { return {0, inode_}; }

  Status ReadAt(uint64_t offset, std::span<std::byte> into) const override {
    LAMINA_RETURN_IF_ERROR(CheckRange(offset, into.size()));
    if (!into.empty()) std::memcpy(into.data(), content_->data() + offset, into.size());
    return Status();
  }

  Result<MappedRegion> Map(uint64_t offset, uint64_t length) const override {
    LAMINA_RETURN_IF_ERROR(CheckRange(offset, length));
    return MappedRegion(std::as_bytes(std::span(*content_)).subspan(offset, length), content_,
                        /*is_file_mapping=*/false);
  }

 private:
  Status CheckRange(uint64_t offset, uint64_t length) const {
    if (RangeFits(offset, length, size_bytes())) return Status();
    return IoError("{}: {} bytes at offset {} leave the file of {} bytes", path_, length, offset,
                   size_bytes());
  }

  std::string path_;
  std::shared_ptr<const std::string> content_;
  uint64_t inode_;
};

}  // namespace

void MemoryFiles::Add(const std::string& path, std::string content) {
  files_[path] = std::make_shared<MemoryFile>(path, std::move(content), files_.size() + 1);
}

Result<std::shared_ptr<const File>> MemoryFiles::Open(const std::string& path) const {
  const auto found = files_.find(path);
  if (found == files_.end()) return NotFoundError("{}: no such file", path);
  return found->second;
}

Result<OpenedBeneath> MemoryFiles::OpenBeneath(const Beneath& where, const std::string& location) const {
  if (location.empty() || location[0] == '/') return InvalidModelError("external data '{}'", location);
  std::istringstream components(location);
  for (std::string component; std::getline(components, component, '/');) {
    if (component == "..") return InvalidModelError("external data '{}' leads outside", location);
  }
  LAMINA_ASSIGN_OR_RETURN(auto file, Open(where.folder.empty() ? location : where.folder + "/" + location));
  return OpenedBeneath{std::move(file), false};
}

class FaultyDirectReader : public DirectReader {
 public:
  FaultyDirectReader(const FaultyFiles& files, std::string path, std::unique_ptr<DirectReader> reader)
      : files_(files), path_(std::move(path)), reader_(std::move(reader)) {}

  uint64_t alignment_bytes() const override { return reader_->alignment_bytes(); }

  Status ReadAt(uint64_t offset, std::span<std::byte> into, uint64_t needed_bytes) const override {
    ++files_.direct_reads_;
    if (files_.before_direct_read) {
      LAMINA_RETURN_IF_ERROR(files_.before_direct_read(path_, offset, needed_bytes));
    }
    files_.bytes_read_ += needed_bytes;
    return reader_->ReadAt(offset, into, needed_bytes);
  }

 private:
  const FaultyFiles& files_;
  std::string path_;
  std::unique_ptr<DirectReader> reader_;
};

class FaultyFile : public File {
 public:
  FaultyFile(const FaultyFiles& files, std::shared_ptr<const File> file)
      : files_(files), file_(std::move(file)) {}

  const std::string& path() const override { return file_->path(); }
  uint64_t size_bytes() const override { return file_->size_bytes(); }
  FileIdentity identity() const override { return file_->identity(); }

  Status ReadAt(uint64_t offset, std::span<std::byte> into) const override {
    ++files_.reads_;
    if (files_.before_read) LAMINA_RETURN_IF_ERROR(files_.before_read(path(), offset, into.size()));
    files_.bytes_read_ += into.size();
    return file_->ReadAt(offset, into);
  }

  Result<MappedRegion> Map(uint64_t offset, uint64_t length) const override {
    ++files_.maps_;
    if (files_.before_map) LAMINA_RETURN_IF_ERROR(files_.before_map(path(), offset, length));
    return file_->Map(offset, length);
  }

  Result<FileState> State() const override { return file_->State(); }
  Status DropCachedPages() const override { return file_->DropCachedPages(); }

  Result<std::unique_ptr<DirectReader>> OpenDirect() const override {
    if (files_.before_open_direct) LAMINA_RETURN_IF_ERROR(files_.before_open_direct(path()));
    LAMINA_ASSIGN_OR_RETURN(auto reader, file_->OpenDirect());
    return std::unique_ptr<DirectReader>(
        std::make_unique<FaultyDirectReader>(files_, path(), std::move(reader)));
  }

 private:
  const FaultyFiles& files_;
  std::shared_ptr<const File> file_;
};

Result<std::shared_ptr<const File>> FaultyFiles::Open(const std::string& path) const {
  ++opens_;
  if (before_open) LAMINA_RETURN_IF_ERROR(before_open(path));
  LAMINA_ASSIGN_OR_RETURN(auto file, files_.Open(path));
  return Wrap(std::move(file));
}

Result<OpenedBeneath> FaultyFiles::OpenBeneath(const Beneath& where, const std::string& location) const {
  ++opens_;
  if (before_open) LAMINA_RETURN_IF_ERROR(before_open(where.folder + "/" + location));
  LAMINA_ASSIGN_OR_RETURN(OpenedBeneath opened, files_.OpenBeneath(where, location));
  opened.file = Wrap(std::move(opened.file));
  return opened;
}

std::shared_ptr<const File> FaultyFiles::Wrap(std::shared_ptr<const File> file) const {
  return std::make_shared<FaultyFile>(*this, std::move(file));
}

}  // namespace lamina::testing
