#include "providers/cpu/cpu_kernels.h"

namespace lamina {

void RegisterCpuKernels(KernelRegistry&) {}

}  // namespace lamina
