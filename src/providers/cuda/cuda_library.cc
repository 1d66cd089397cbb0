#include "providers/cuda/cuda_library.h"

#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/os.h"

namespace lamina::cuda {
namespace {

constexpr const char* kLibraryName = "liblamina_cuda.so";

// Numbers of cudaError_t that mean something here; they never change.
constexpr int kErrorMemoryAllocation = 2;
constexpr int kErrorInsufficientDriver = 35;
constexpr int kErrorNoDevice = 100;
constexpr int kErrorHostMemoryAlreadyRegistered = 712;
constexpr int kErrorNotSupported = 801;

}  // namespace

std::vector<std::string> CudaLibraryPaths() {
  if (const char* chosen = std::getenv("LAMINA_CUDA_LIBRARY")) return {chosen};
  const std::filesystem::path folder = std::filesystem::path(ExecutablePath()).parent_path();
  std::vector<std::string> paths;
  for (const char* beside : {".", "../" LAMINA_INSTALL_LIBDIR, "../lib"}) {
    const std::string path = (folder / beside / kLibraryName).lexically_normal().string();
    if (paths.empty() || paths.back() != path) paths.push_back(path);
  }
  return paths;
}

Result<std::shared_ptr<const CudaLibrary>> CudaLibrary::Open() {
  Status first_error;
  for (const std::string& path : CudaLibraryPaths()) {
    if (std::filesystem::exists(path)) return Open(path);
    if (first_error.ok()) first_error = NotFoundError("no library {}: this build has no CUDA", path);
  }
  return first_error;
}

Result<std::shared_ptr<const CudaLibrary>> CudaLibrary::Open(const std::string& path) {
  LAMINA_ASSIGN_OR_RETURN(std::unique_ptr<DynamicLibrary> file, DynamicLibrary::Open(path));
  const auto get_api = file->Function<const DeviceApi* (*)()>(kDeviceApiSymbol);
  if (!get_api) return UnsupportedError("{}: expected the function {}, found none", path, kDeviceApiSymbol);
  const DeviceApi* api = get_api();
  if (api->version != kDeviceApiVersion) {
    return UnsupportedError("{}: expected version {} of the device half, found {}: it is of another build",
                            path, kDeviceApiVersion, api->version);
  }
  std::shared_ptr<CudaLibrary> library(new CudaLibrary(std::move(file), api));
  const int error = api->device_count(&library->device_count_);
  if (error == kErrorNoDevice || (error == 0 && library->device_count_ == 0)) {
    return NotFoundError("{}: the driver knows no GPU", path);
  }
  if (error == kErrorInsufficientDriver) {  // also where there is none
    int version = 0;
    if (api->driver_version(&version) != 0 || version == 0) {
      return NotFoundError("{}: there is no NVIDIA driver", path);
    }
    return UnsupportedError("{}: the NVIDIA driver is too old: it is for CUDA {}", path,
                            library->DriverVersion());
  }
  if (error != 0) return InternalError("{}: asking for GPUs: {}", path, api->error_text(error));
  return std::shared_ptr<const CudaLibrary>(std::move(library));
}

std::string CudaLibrary::DriverVersion() const {
  int version = 0;
  if (api_->driver_version(&version) != 0) return "unknown";
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

Status CudaLibrary::StatusOf(int error, int device, const char* what) const {
  if (error == 0) return Status();
  StatusCode code = StatusCode::kInternal;
  if (error == kErrorMemoryAllocation) code = StatusCode::kResourceExhausted;
  if (error == kErrorHostMemoryAlreadyRegistered) code = StatusCode::kInvalidArgument;
  if (error == kErrorNotSupported) code = StatusCode::kUnsupported;
  if (api_->error_is_sticky(error)) code = StatusCode::kDeviceLost;
  return Status(code, fmt::format("CUDA device {}: {}: {}", device, what, api_->error_text(error)));
}

}  // namespace lamina::cuda
