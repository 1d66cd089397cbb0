#include "providers/cpu/cpu_kernels.h"

namespace lamina {

void RegisterCpuKernels(KernelRegistry& registry) {
  RegisterMatMul(registry);
  RegisterGemm(registry);
}

}  // namespace lamina
