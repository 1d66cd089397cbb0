#include "providers/cpu/nbits/nbits_float_kernels_inl.h"

namespace lamina {

extern const NBitsFloatKernels kNBitsFloatKernelsBaseline;
const NBitsFloatKernels kNBitsFloatKernelsBaseline = kNBitsFloatKernels;

}  // namespace lamina
