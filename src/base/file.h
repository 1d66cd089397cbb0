// The seam to files: everything that reads a model or its weights goes through a FileSystem, so that tests
// can inject memory-backed and failing files. SystemFiles() is the real one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "lamina/status.h"

namespace lamina {

// Read-only bytes that live as long as any copy of the region does, also after the file is closed. Copies are
// cheap. A file that is cut short by someone else while it is mapped makes the process fault on access
// (SIGBUS), as with every mapping.
class MappedRegion {
 public:
  enum class Access { kNormal, kSequential, kRandom, kWillNeed, kDontNeed };

  MappedRegion() = default;
  // `is_file_mapping` tells whether Advise may reach the kernel; it never may for ordinary memory.
  MappedRegion(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, bool is_file_mapping)
      : bytes_(bytes), owner_(std::move(owner)), is_file_mapping_(is_file_mapping) {}

  std::span<const std::byte> bytes() const { return bytes_; }
  // REQUIRES: offset + length <= bytes().size(). Shares the owner.
  MappedRegion Subregion(size_t offset, size_t length) const {
    return MappedRegion(bytes_.subspan(offset, length), owner_, is_file_mapping_);
  }
  // How the bytes will be used; a hint that changes no content. kDontNeed drops whole pages inside the region
  // from this process (they are read again on access).
  void Advise(Access access) const;
  // Brings every page of the region into memory and maps it into this process, so that reading it faults no
  // more. IO where the file no longer reaches to the end of the region or cannot be read: the cases in which
  // a touch would raise SIGBUS; also on a kernel that cannot do it (before Linux 5.14).
  Status Populate() const;
  // Bytes of the region whose pages are in memory. The kernel tells this only to those who may write the
  // file; for others everything counts as resident.
  Result<uint64_t> ResidentBytes() const;

 private:
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
  bool is_file_mapping_ = false;
};

// Which file it is: two opened files with equal device and inode are the same.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  bool operator==(const FileIdentity&) const = default;
};

// What the system knows of an opened file at some moment; differs between two moments if the file was written
// to or cut short in between.
struct FileState {
  uint64_t size_bytes = 0;
  int64_t modified_ns = 0;  // since the epoch
  bool operator==(const FileState&) const = default;
};

// Reads of a file that bypass the page cache (O_DIRECT). Thread-safe.
class DirectReader {
 public:
  virtual ~DirectReader() = default;
  // What offsets, lengths and addresses must be multiples of; a power of two, at most a page.
  virtual uint64_t alignment_bytes() const = 0;
  // Fills the first `needed_bytes` of `into`, and more of it where the file goes on. IO where the file ends
  // before or the system fails, UNSUPPORTED where the file system takes no such read. REQUIRES: offset and
  // into are aligned, needed_bytes <= into.size().
  virtual Status ReadAt(uint64_t offset, std::span<std::byte> into, uint64_t needed_bytes) const = 0;
};

// A regular file opened for reading. Thread-safe.
class File {
 public:
  virtual ~File() = default;
  // As it was opened; for messages.
  virtual const std::string& path() const = 0;
  // At the time of opening.
  virtual uint64_t size_bytes() const = 0;
  virtual FileIdentity identity() const = 0;
  // Fills all of `into`. IO where the range leaves the file or the system fails.
  virtual Status ReadAt(uint64_t offset, std::span<std::byte> into) const = 0;
  // Any offset and length inside the file; a length of 0 gives an empty region.
  virtual Result<MappedRegion> Map(uint64_t offset, uint64_t length) const = 0;
  // The file as it is at this moment.
  virtual Result<FileState> State() const { return FileState{size_bytes(), 0}; }
  // The same opened file for direct reads. UNSUPPORTED where the file system has none.
  virtual Result<std::unique_ptr<DirectReader>> OpenDirect() const;
  // Asks the system to forget what it holds of the file in memory, for measurements of cold reads.
  virtual Status DropCachedPages() const { return Status(); }
};

// A file that was named by a model.
struct OpenedBeneath {
  std::shared_ptr<const File> file;
  // More than one name leads to the file, so its content may be shared with something outside the folder.
  bool has_other_hard_links = false;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Opens a file that the user named. NOT_FOUND where it is missing, INVALID_ARGUMENT where it is a folder, a
  // device or a pipe (which is never waited for), IO for other failures.
  virtual Result<std::shared_ptr<const File>> Open(const std::string& path) const = 0;

  struct Beneath {
    std::string folder;  // of the model file as it was named; "" is the current folder
    std::string
        real_folder;  // of the file that the model's name leads to through links; "" where it is the same
    // Refuse files with other hard links.
    bool strict = false;
  };
  // Opens a file that a model names, which is untrusted: `location` must be relative and lead, through links
  // or not, to a regular file inside one of the two folders. What is checked is what was opened: a link
  // swapped in between is not followed outside. NOT_FOUND where it is missing, INVALID_MODEL where it is
  // refused, IO for other failures.
  virtual Result<OpenedBeneath> OpenBeneath(const Beneath& where, const std::string& location) const = 0;
};

// The operating system's files. Never destroyed.
const FileSystem& SystemFiles();

// Whether [offset, offset + length) lies inside `size_bytes` bytes; safe against overflow.
constexpr bool RangeFits(uint64_t offset, uint64_t length, uint64_t size_bytes) {
  return offset <= size_bytes && length <= size_bytes - offset;
}

}  // namespace lamina
