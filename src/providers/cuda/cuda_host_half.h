// The host half of the CUDA provider: which nodes it takes, with which kernels and how much scratch. It needs
// no device half, so that plans for GPUs can be made where there is none.
#pragma once

#include <memory>

#include "provider/provider.h"
#include "providers/cuda/kernels/cuda_kernel.h"

namespace lamina {

// Of described devices; its kernels plan and do not compute.
std::unique_ptr<ProviderHostHalf> CreateCudaHostHalf();

namespace cuda {

inline constexpr const char* kProviderName = "cuda";
inline constexpr const char* kProviderVendor = "nvidia";

void RegisterCudaKernels(KernelRegistry& registry, const KernelLauncher& launcher);

// The nodes that have a kernel which takes their attributes; the others with the reason.
Result<Capability> CudaCapability(const KernelRegistry& kernels, const CapabilityRequest& request);

}  // namespace cuda
}  // namespace lamina
