#include "providers/cpu/nbits/nbits_float_kernels_inl.h"

namespace lamina {

extern const NBitsFloatKernels kNBitsFloatKernelsAvx2;
const NBitsFloatKernels kNBitsFloatKernelsAvx2 = kNBitsFloatKernels;

}  // namespace lamina
