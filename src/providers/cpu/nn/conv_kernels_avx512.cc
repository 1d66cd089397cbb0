#include "providers/cpu/nn/conv_kernels_inl.h"

namespace lamina {

extern const ConvKernels kConvKernelsAvx512;
const ConvKernels kConvKernelsAvx512 = kConvKernels;

}  // namespace lamina
