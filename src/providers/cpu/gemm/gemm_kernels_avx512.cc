#include "providers/cpu/gemm/gemm_kernels_inl.h"

namespace lamina {

extern const GemmKernels kGemmKernelsAvx512;
const GemmKernels kGemmKernelsAvx512 = kGemmKernels;

}  // namespace lamina
