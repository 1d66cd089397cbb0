// Files of random bytes with tensors in them, and memory for the tensors to be loaded to.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/file.h"
#include "provider/external_data_loader.h"
#include "support/fake_accelerator.h"
#include "support/test_data.h"

namespace lamina::testing {

inline std::string RandomBytes(size_t size_bytes, uint32_t seed) {
  std::mt19937_64 random(seed);
  std::string bytes(size_bytes, '\0');
  for (size_t i = 0; i < size_bytes; i += sizeof(uint64_t)) {
    const uint64_t value = random();
    std::memcpy(&bytes[i], &value, std::min(sizeof(value), size_bytes - i));
  }
  return bytes;
}

// Tensors to load and what they must then hold. Destinations are surrounded by sentinels.
class LoadTargets {
 public:
  // Bytes [offset, offset + size) of the file, whose content is `content`.
  void Add(std::shared_ptr<const File> file, const std::string& content, uint64_t offset, uint64_t size,
           DataType type = DataType::kUint8) {
    auto memory = std::make_unique<std::string>(size + 2 * kMargin, kSentinel);
    std::string expected = content.substr(offset, size);
    if (type == DataType::kBool) {
      for (char& value : expected) value = static_cast<char>(value != 0);
    }
    names_.push_back(std::make_unique<std::string>("w" + std::to_string(items_.size())));
    items_.push_back({*names_.back(), std::move(file), offset, size, type, memory->data() + kMargin,
                      FakeAccelerator::device()});
    memory_.push_back(std::move(memory));
    expected_.push_back(std::move(expected));
  }

  const std::vector<ExternalDataItem>& items() const { return items_; }

  // Empty where every tensor holds its bytes and nothing around them was written, else which is wrong.
  std::string Wrong() const {
    for (size_t i = 0; i < items_.size(); ++i) {
      const std::string margin(kMargin, kSentinel);
      if (*memory_[i] == margin + expected_[i] + margin) continue;
      const bool margins_ok = memory_[i]->compare(0, kMargin, margin) == 0 &&
                              memory_[i]->compare(memory_[i]->size() - kMargin, kMargin, margin) == 0;
      return *names_[i] + (margins_ok ? " has wrong bytes" : " was written outside its memory");
    }
    return "";
  }

  void Clear() {
    for (auto& memory : memory_) memory->assign(memory->size(), kSentinel);
  }

 private:
  static constexpr size_t kMargin = 64;
  static constexpr char kSentinel = '\x5A';
  std::vector<ExternalDataItem> items_;
  std::vector<std::unique_ptr<std::string>> names_;
  std::vector<std::unique_ptr<std::string>> memory_;
  std::vector<std::string> expected_;
};

// A file below a temporary folder.
struct DataFile {
  DataFile(const TempDir& folder, const std::string& name, size_t size_bytes, uint32_t seed)
      : path(folder.File(name)), content(RandomBytes(size_bytes, seed)) {
    WriteWholeFile(path, content);
  }
  std::shared_ptr<const File> Open(const FileSystem& files = SystemFiles()) const {
    return files.Open(path).value();
  }
  std::string path;
  std::string content;
};

}  // namespace lamina::testing
