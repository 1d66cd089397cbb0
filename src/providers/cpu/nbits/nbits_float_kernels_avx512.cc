#include "providers/cpu/nbits/nbits_float_kernels_inl.h"

namespace lamina {

extern const NBitsFloatKernels kNBitsFloatKernelsAvx512;
const NBitsFloatKernels kNBitsFloatKernelsAvx512 = kNBitsFloatKernels;

}  // namespace lamina
