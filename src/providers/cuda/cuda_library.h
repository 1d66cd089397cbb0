// The device half of the CUDA provider, loaded while the process runs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/dynamic_library.h"
#include "lamina/status.h"
#include "providers/cuda/device/device_api.h"

namespace lamina::cuda {

// Thread-safe.
class CudaLibrary {
 public:
  // The device half of this build with a driver and at least one GPU. It is looked for in
  // $LAMINA_CUDA_LIBRARY (a file), else beside the program and in the folder of libraries that belongs to the
  // program's. NOT_FOUND where there is none, or no GPU; UNSUPPORTED for one of another build or a driver
  // that is too old.
  static Result<std::shared_ptr<const CudaLibrary>> Open();
  // From this file.
  static Result<std::shared_ptr<const CudaLibrary>> Open(const std::string& path);

  const DeviceApi& api() const { return *api_; }
  const std::string& path() const { return library_->path(); }
  int device_count() const { return device_count_; }
  // "13.0"
  std::string DriverVersion() const;
  // OK for 0. DEVICE_LOST, RESOURCE_EXHAUSTED or INTERNAL with "gpu N: what: text of the error".
  Status StatusOf(int error, int device, const char* what) const;

 private:
  CudaLibrary(std::unique_ptr<DynamicLibrary> library, const DeviceApi* api)
      : library_(std::move(library)), api_(api) {}

  std::unique_ptr<DynamicLibrary> library_;
  const DeviceApi* api_;
  int device_count_ = 0;
};

// Where Open() looks, in that order.
std::vector<std::string> CudaLibraryPaths();

}  // namespace lamina::cuda
