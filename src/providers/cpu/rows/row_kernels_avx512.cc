#include "providers/cpu/rows/row_kernels_inl.h"

namespace lamina {

extern const RowKernels kRowKernelsAvx512;
const RowKernels kRowKernelsAvx512 = kRowKernels;

}  // namespace lamina
