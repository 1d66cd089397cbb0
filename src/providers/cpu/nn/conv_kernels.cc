#include "providers/cpu/nn/conv_kernels.h"

namespace lamina {

extern const ConvKernels kConvKernelsBaseline;
extern const ConvKernels kConvKernelsAvx2;
extern const ConvKernels kConvKernelsAvx512;

const ConvKernels& ConvKernelsFor(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kBaseline:
      return kConvKernelsBaseline;
    case CpuIsa::kAvx2:
      return kConvKernelsAvx2;
    case CpuIsa::kAvx512:
    case CpuIsa::kAvx512Vnni:
      return kConvKernelsAvx512;
  }
  return kConvKernelsBaseline;
}

}  // namespace lamina
