#include "providers/cpu/cpu_kernels.h"

namespace lamina {

void RegisterCpuKernels(KernelRegistry& registry) {
  RegisterMatMul(registry);
  RegisterGemm(registry);
  RegisterLayerNorm(registry);
  RegisterSkipLayerNorm(registry);
  RegisterSoftmax(registry);
  RegisterRotaryEmbedding(registry);
}

}  // namespace lamina
