#include "providers/cpu/gemm/gemm_kernels_inl.h"

namespace lamina {

extern const GemmKernels kGemmKernelsAvx2;
const GemmKernels kGemmKernelsAvx2 = kGemmKernels;

}  // namespace lamina
