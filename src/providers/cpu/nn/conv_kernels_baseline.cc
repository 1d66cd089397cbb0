#include "providers/cpu/nn/conv_kernels_inl.h"

namespace lamina {

extern const ConvKernels kConvKernelsBaseline;
const ConvKernels kConvKernelsBaseline = kConvKernels;

}  // namespace lamina
