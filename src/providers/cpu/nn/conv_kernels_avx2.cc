#include "providers/cpu/nn/conv_kernels_inl.h"

namespace lamina {

extern const ConvKernels kConvKernelsAvx2;
const ConvKernels kConvKernelsAvx2 = kConvKernels;

}  // namespace lamina
