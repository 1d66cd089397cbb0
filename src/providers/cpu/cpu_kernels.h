// The registration functions of the CPU kernels, one per family (folder or file below providers/cpu).
#pragma once

#include "provider/kernel_registry.h"

namespace lamina {

// All of them.
void RegisterCpuKernels(KernelRegistry& registry);

void RegisterMatMul(KernelRegistry& registry);
void RegisterGemm(KernelRegistry& registry);

}  // namespace lamina
