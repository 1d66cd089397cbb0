// Fills device memory from files at the speed of disk and link: what a provider may offer instead of the
// generic way (map the file, copy through the data transfer).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "base/file.h"
#include "lamina/status.h"
#include "lamina/types.h"

namespace lamina {

// One tensor: bytes of an opened and checked file, and where they go.
struct ExternalDataItem {
  std::string_view name;  // of the initializer, for messages
  std::shared_ptr<const File> file;
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
  // Some types are normalised on the way: a bool is 0 or 1.
  DataType type = DataType::kUndefined;
  void* destination = nullptr;
  Device device;  // of the destination
};

struct ExternalDataProgress {
  // Called on the calling thread, now and then, with the bytes that arrived since the last call. An error
  // (CANCELLED) ends the load and is returned.
  std::function<Status(uint64_t bytes)> on_loaded;
};

// Thread-safe: several sessions may load at once.
class IExternalDataLoader {
 public:
  virtual ~IExternalDataLoader() = default;
  virtual bool CanLoad(const Device& device) const = 0;
  // Done on return, also with an error: no copy or read is under way any more. IO naming the file and the
  // initializer; errors of the device. REQUIRES: CanLoad(item.device).
  virtual Status LoadTensor(const ExternalDataItem& item, const ExternalDataProgress& progress) = 0;
  // All items, in any order; they may come from several files and go to several devices.
  virtual Status LoadBatch(std::span<const ExternalDataItem> items, const ExternalDataProgress& progress) {
    for (const ExternalDataItem& item : items) LAMINA_RETURN_IF_ERROR(LoadTensor(item, progress));
    return Status();
  }
};

}  // namespace lamina
