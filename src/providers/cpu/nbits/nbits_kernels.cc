#include "providers/cpu/nbits/nbits_kernels.h"

namespace lamina {

extern const NBitsFloatKernels kNBitsFloatKernelsBaseline;
extern const NBitsFloatKernels kNBitsFloatKernelsAvx2;
extern const NBitsFloatKernels kNBitsFloatKernelsAvx512;
extern const NBitsInt8Kernels kNBitsInt8KernelsAvx2;
extern const NBitsInt8Kernels kNBitsInt8KernelsAvx512Vnni;

const NBitsFloatKernels& NBitsFloatKernelsFor(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kBaseline:
      return kNBitsFloatKernelsBaseline;
    case CpuIsa::kAvx2:
      return kNBitsFloatKernelsAvx2;
    case CpuIsa::kAvx512:
    case CpuIsa::kAvx512Vnni:
      return kNBitsFloatKernelsAvx512;
  }
  return kNBitsFloatKernelsBaseline;
}

const NBitsInt8Kernels* NBitsInt8KernelsFor(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kBaseline:
      return nullptr;
    case CpuIsa::kAvx2:
    case CpuIsa::kAvx512:
      return &kNBitsInt8KernelsAvx2;
    case CpuIsa::kAvx512Vnni:
      return &kNBitsInt8KernelsAvx512Vnni;
  }
  return nullptr;
}

}  // namespace lamina
