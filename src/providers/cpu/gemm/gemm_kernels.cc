#include "providers/cpu/gemm/gemm_kernels.h"

namespace lamina {

extern const GemmKernels kGemmKernelsBaseline;
extern const GemmKernels kGemmKernelsAvx2;
extern const GemmKernels kGemmKernelsAvx512;

const GemmKernels& GemmKernelsFor(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kBaseline:
      return kGemmKernelsBaseline;
    case CpuIsa::kAvx2:
      return kGemmKernelsAvx2;
    case CpuIsa::kAvx512:
    case CpuIsa::kAvx512Vnni:
      return kGemmKernelsAvx512;
  }
  return kGemmKernelsBaseline;
}

}  // namespace lamina
