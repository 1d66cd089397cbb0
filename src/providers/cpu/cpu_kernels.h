// The registration functions of the CPU kernels, one per family (folder or file below providers/cpu).
#pragma once

#include "provider/kernel_registry.h"

namespace lamina {

// All of them.
void RegisterCpuKernels(KernelRegistry& registry);

void RegisterMatMul(KernelRegistry& registry);
void RegisterGemm(KernelRegistry& registry);
void RegisterLayerNorm(KernelRegistry& registry);
void RegisterSkipLayerNorm(KernelRegistry& registry);
void RegisterSoftmax(KernelRegistry& registry);
void RegisterRotaryEmbedding(KernelRegistry& registry);

}  // namespace lamina
