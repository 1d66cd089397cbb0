// The CUDA execution provider: NVIDIA GPUs through the device half (cuda_library.h).
#pragma once

#include <memory>

#include "base/option_table.h"
#include "provider/provider.h"

namespace lamina {

// Makes the provider "cuda"; there is one for a process. Create fails where the device half, a driver or a
// GPU is missing (CudaLibrary::Open); its text says which.
std::shared_ptr<ProviderFactory> CreateCudaProviderFactory();

// The options ep.cuda.KEY, by KEY.
const OptionTable& CudaProviderOptionTable();

}  // namespace lamina
