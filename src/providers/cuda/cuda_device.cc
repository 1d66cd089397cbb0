#include "providers/cuda/cuda_device.h"

#include <system_error>

namespace lamina::cuda {

CudaDevice::CudaDevice(std::shared_ptr<const CudaLibrary> library, int ordinal, const Device& device)
    : library_(std::move(library)), ordinal_(ordinal), device_(device) {}

CudaDevice::~CudaDevice() {
  if (context_.valid()) context_.wait();
}

void CudaDevice::CreateContextInBackground() {
  std::call_once(context_started_, [this] {
    const auto create = [this] {
      return library_->StatusOf(library_->api().create_context(ordinal_), ordinal_, "creating a context");
    };
    try {
      context_ = std::async(std::launch::async, create).share();
    } catch (const std::system_error&) {  // no thread: it is created by the first who waits
      context_ = std::async(std::launch::deferred, create).share();
    }
  });
}

Status CudaDevice::WaitForContext() {
  CreateContextInBackground();
  return context_.get();
}

}  // namespace lamina::cuda
