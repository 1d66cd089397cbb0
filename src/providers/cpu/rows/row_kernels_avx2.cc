#include "providers/cpu/rows/row_kernels_inl.h"

namespace lamina {

extern const RowKernels kRowKernelsAvx2;
const RowKernels kRowKernelsAvx2 = kRowKernels;

}  // namespace lamina
