#include "providers/cpu/gemm/gemm_kernels_inl.h"

namespace lamina {

extern const GemmKernels kGemmKernelsBaseline;
const GemmKernels kGemmKernelsBaseline = kGemmKernels;

}  // namespace lamina
