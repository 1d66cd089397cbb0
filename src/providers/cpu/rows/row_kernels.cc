#include "providers/cpu/rows/row_kernels.h"

namespace lamina {

extern const RowKernels kRowKernelsBaseline;
extern const RowKernels kRowKernelsAvx2;
extern const RowKernels kRowKernelsAvx512;

const RowKernels& RowKernelsFor(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kBaseline:
      return kRowKernelsBaseline;
    case CpuIsa::kAvx2:
      return kRowKernelsAvx2;
    case CpuIsa::kAvx512:
    case CpuIsa::kAvx512Vnni:
      return kRowKernelsAvx512;
  }
  return kRowKernelsBaseline;
}

}  // namespace lamina
