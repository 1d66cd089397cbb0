// Writes a file as a whole: it appears under its name only when Commit succeeds, so that a full disk, an
// error or a crash never leaves half a file or destroys the one that was there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "lamina/status.h"

namespace lamina {

// Not thread-safe.
class FileWriter {
 public:
  // The bytes go into a file beside `path` first. A link is followed; a device or pipe is written directly.
  static Result<FileWriter> Create(const std::string& path);
  FileWriter(FileWriter&& other) noexcept;
  FileWriter& operator=(FileWriter&&) = delete;
  // Without Commit, what was written is removed.
  ~FileWriter();

  Status Append(std::span<const std::byte> bytes);
  Status Append(std::string_view text) { return Append(std::as_bytes(std::span(text))); }
  // Zero bytes up to the next multiple of `alignment` (a power of two).
  Status AlignTo(uint64_t alignment);
  uint64_t bytes_written() const { return bytes_written_; }

  // Hands everything to the disk and puts the file in its place. REQUIRES: called once, nothing is appended
  // after it.
  Status Commit();

 private:
  FileWriter(UniqueFd descriptor, std::string path, std::string temporary)
      : descriptor_(std::move(descriptor)), path_(std::move(path)), temporary_(std::move(temporary)) {}
  Status WriteAll(std::span<const std::byte> bytes);
  Status FlushBuffer();
  Status Failed(const char* what) const;

  UniqueFd descriptor_;
  std::string path_;
  std::string temporary_;  // empty where the file is written directly or was moved into its place
  std::vector<std::byte> buffer_;
  uint64_t bytes_written_ = 0;  // including what is still in the buffer
};

}  // namespace lamina
