// File systems for tests: files in memory, and one that fails on request.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/file.h"

namespace lamina::testing {

// Files that are strings. Paths are compared as text.
class MemoryFiles : public FileSystem {
 public:
  void Add(const std::string& path, std::string content);
  Result<std::shared_ptr<const File>> Open(const std::string& path) const override;
  // Lexical: any ".." component or absolute location is refused, the file is "folder/location".
  Result<OpenedBeneath> OpenBeneath(const Beneath& where, const std::string& location) const override;

 private:
  std::map<std::string, std::shared_ptr<const File>> files_;
};

// Passes everything to another file system, except what a test wants to fail. Counts what is used.
// Thread-safe after its hooks are set.
class FaultyFiles : public FileSystem {
 public:
  explicit FaultyFiles(const FileSystem& files) : files_(files) {}

  // Called before each operation; an error is returned instead of doing it. `path` is the opened file's.
  std::function<Status(const std::string& path)> before_open;
  std::function<Status(const std::string& path, uint64_t offset, uint64_t length)> before_read;
  std::function<Status(const std::string& path, uint64_t offset, uint64_t length)> before_map;
  std::function<Status(const std::string& path)> before_open_direct;
  // Called before each direct read, which counts as a read too.
  std::function<Status(const std::string& path, uint64_t offset, uint64_t length)> before_direct_read;

  Result<std::shared_ptr<const File>> Open(const std::string& path) const override;
  Result<OpenedBeneath> OpenBeneath(const Beneath& where, const std::string& location) const override;

  int opens() const { return opens_; }
  int reads() const { return reads_; }
  int direct_reads() const { return direct_reads_; }
  int maps() const { return maps_; }
  uint64_t bytes_read() const { return bytes_read_; }

 private:
  friend class FaultyFile;
  friend class FaultyDirectReader;
  std::shared_ptr<const File> Wrap(std::shared_ptr<const File> file) const;

  const FileSystem& files_;
  mutable std::atomic<int> opens_{0};
  mutable std::atomic<int> reads_{0};
  mutable std::atomic<int> direct_reads_{0};
  mutable std::atomic<int> maps_{0};
  mutable std::atomic<uint64_t> bytes_read_{0};
};

}  // namespace lamina::testing
